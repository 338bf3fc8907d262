package kubebuilder

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	where "github.com/pintle-go/pintle/crd/testdata/kubebuilder/place"
)

// Roster has types that are declared as other types, and types that encode themselves.
// +kubebuilder:object:root=true
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.host`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.spec.node`,priority=10
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
type Roster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec RosterSpec `json:"spec,omitempty"`
}

// Name is a name.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z.]+$`
type Name string

// HostName is a name of a host.
// +kubebuilder:validation:MinLength=3
type HostName Name

// Domain is declared over two steps, and has a second pattern.
// +kubebuilder:validation:Pattern=`[.]`
type Domain HostName

// Percent is a percentage.
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=100
type Percent int32

// Names are names.
// +kubebuilder:validation:MaxItems=5
// +listType=set
type Names []Name

// Team is a list of names.
// +kubebuilder:validation:MinItems=1
type Team Names

// Limits are limits by name.
// +kubebuilder:validation:MaxProperties=5
type Limits map[string]Percent

// Quota is a map of limits.
// +kubebuilder:validation:MinProperties=1
type Quota Limits

// Turn is a window.
// +kubebuilder:validation:XValidation:rule="self.count > 1"
type Turn Window

// Frame is an alias of a struct.
type Frame = Window

// Site is a site of another package.
// +kubebuilder:validation:XValidation:rule="self.floor < 9"
type Site where.Site

// Zone is a name of another package.
// +kubebuilder:validation:XValidation:rule="self != 'x'"
type Zone where.Name

// State is a condition with the markers of metav1.Condition.
type State metav1.Condition

// Night embeds a type that is declared as another one.
type Night struct {
	Turn  `json:",inline"`
	Guard Zone `json:"guard,omitempty"`
}

// Node contains itself.
type Node struct {
	Name Name `json:"name"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Next *Node `json:"next,omitempty"`
}

// Pause encodes itself, as a text.
type Pause struct{ text string }

// MarshalJSON encodes the text.
func (p Pause) MarshalJSON() ([]byte, error) { return json.Marshal(p.text) }

// UnmarshalJSON decodes the text.
func (p *Pause) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &p.text) }

// Level encodes itself. A marker names its type.
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:MaxLength=5
type Level struct{ Pause }

// Freely encodes itself as anything.
type Freely struct{ Pause }

// RosterSpec has a field for each way to declare a type.
type RosterSpec struct {
	// +kubebuilder:validation:MaxLength=20
	Host   HostName            `json:"host"`
	Domain Domain              `json:"domain,omitempty"`
	Pair   *HostName           `json:"pair,omitempty"`
	ByName map[string]HostName `json:"byName,omitempty"`
	// +kubebuilder:validation:items:MaxLength=10
	Hosts []HostName `json:"hosts,omitempty"`

	// The type's maximum holds as well.
	// +kubebuilder:validation:Maximum=200
	// +kubebuilder:validation:Minimum=10
	Share Percent `json:"share,omitempty"`

	// The type's pattern holds as well.
	// +kubebuilder:validation:Pattern=`^x`
	Crossed Name `json:"crossed,omitempty"`

	// +kubebuilder:validation:MaxItems=3
	Team  Team  `json:"team,omitempty"`
	Quota Quota `json:"quota,omitempty"`

	Turn  Turn   `json:"turn,omitempty"`
	Turns []Turn `json:"turns,omitempty"`
	Frame Frame  `json:"frame,omitempty"`
	Night Night  `json:"night,omitempty"`
	Site  Site   `json:"site,omitempty"`
	// +kubebuilder:validation:XValidation:rule="self != 'y'"
	Zone   Zone    `json:"zone,omitempty"`
	States []State `json:"states,omitempty"`
	Node   Node    `json:"node,omitempty"`

	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^[0-9]+s$`
	Pause Pause `json:"pause,omitempty"`
	Level Level `json:"level,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Freely Freely `json:"freely,omitempty"`

	// +optional
	// +kubebuilder:validation:Required
	Needed string `json:"needed,omitempty"`
	// +kubebuilder:validation:Optional
	// +required
	Free string `json:"free"`
}
