package webhook

import (
	"cmp"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/internal/jsonfields"
)

// These are the types of k8s.io/api/admission/v1, with the objects as they were received.

const (
	reviewVersion = "admission.k8s.io/v1"
	reviewKind    = "AdmissionReview"
)

type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID         types.UID                   `json:"uid"`
	Kind        metav1.GroupVersionKind     `json:"kind"`
	Resource    metav1.GroupVersionResource `json:"resource"`
	Subresource string                      `json:"subResource,omitempty"`
	RequestKind *metav1.GroupVersionKind    `json:"requestKind,omitempty"`
	Name        string                      `json:"name,omitempty"`
	Namespace   string                      `json:"namespace,omitempty"`
	Operation   string                      `json:"operation"`
	UserInfo    User                        `json:"userInfo"`
	Object      jsontext.Value              `json:"object,omitempty"`
	OldObject   jsontext.Value              `json:"oldObject,omitempty"`
	DryRun      bool                        `json:"dryRun,omitempty"`
	Options     jsontext.Value              `json:"options,omitempty"`
}

type response struct {
	UID       types.UID      `json:"uid"`
	Allowed   bool           `json:"allowed"`
	Status    *metav1.Status `json:"status,omitempty"`
	Patch     []byte         `json:"patch,omitempty"`
	PatchType string         `json:"patchType,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`
}

// jsonPatch is the only type of patches.
const jsonPatch = "JSONPatch"

// readReview reads a request. The review may have a uid, also if it returns an error.
func readReview(body []byte) (review, *failed) {
	var r review
	err := json.Unmarshal(body, &r, jsontext.AllowInvalidUTF8(true))
	switch {
	case err != nil:
		return r, bad("decode the review: %w", err)
	case r.APIVersion != reviewVersion || r.Kind != reviewKind:
		return r, bad("the body is a %s of %s, and this hook answers a %s of %s",
			cmp.Or(r.Kind, "text without a kind"), cmp.Or(r.APIVersion, "no version"), reviewKind, reviewVersion)
	case r.Request == nil:
		return r, bad("the review has no request")
	case r.Request.UID == "":
		return r, bad("the request has no uid")
	}
	return r, nil
}

// answer encodes a response.
func answer(r response) ([]byte, error) {
	return jsonfields.Encode(&review{APIVersion: reviewVersion, Kind: reviewKind, Response: &r})
}

// isNothing reports whether a review has no such object.
func isNothing(object jsontext.Value) bool { return len(object) == 0 || object.Kind() == 'n' }
