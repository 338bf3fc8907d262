// Package place has types that another package declares its own types as.
package place

// Name is a name.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:Pattern=`^[a-z]+$`
type Name string

// Site is a site.
// +kubebuilder:validation:XValidation:rule="self.floor >= 0 || has(self.name)"
// +structType=atomic
type Site struct {
	// Name is the site's name.
	// +optional
	Name Name `json:"name"`
	// +kubebuilder:validation:Minimum=-3
	// +kubebuilder:default=1
	Floor int32 `json:"floor,omitempty"`
}
