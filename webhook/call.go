package webhook

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
)

// Admission is the request that a hook is asked about. Its counterpart is admission.Request of
// controller-runtime.
type Admission struct {
	UID types.UID
	// Operation is CREATE, UPDATE, DELETE or CONNECT.
	Operation string
	// Kind is that of the object which the function gets, and RequestKind the one that the user sent,
	// which may be of another version.
	Kind, RequestKind kube.GVK
	// Subresource is empty for the objects themselves.
	Subresource string
	// Namespace and Name are those of the object. At the time of a mutation, an object that is to be
	// created with generateName has no name yet.
	Namespace, Name string
	User            User
	// DryRun: nothing will be stored.
	DryRun bool
	// Options is the JSON of the request's options, such as metav1.DeleteOptions.
	Options []byte
}

// User is who sent a request. Its counterpart is authenticationv1.UserInfo of k8s.io/api.
type User struct {
	Name   string              `json:"username,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// Request returns the request of the context that a function of a hook gets. Any other context has an
// empty one. Its counterpart is RequestFromContext of controller-runtime's package admission.
func Request(ctx context.Context) Admission {
	if c := callOf(ctx); c != nil {
		return c.request
	}
	return Admission{}
}

// Warn adds a warning to the answer, which kubectl prints. The context is the one that the function got.
// The API server takes 4,096 characters for each request: a warning is cut at 256 characters, and the last
// one says how many are left out. Its counterpart is admission.Warnings of controller-runtime.
func Warn(ctx context.Context, text string) {
	if c := callOf(ctx); c != nil {
		c.warn(text)
	}
}

// The limits of the API server, in runes.
const (
	maxWarning  = 256
	maxWarnings = 4096
)

// call is the state of one request while a function runs.
type call struct {
	request Admission

	mu       sync.Mutex
	warnings []string
	size     int // of the warnings, in runes
	more     int // warnings that are left out
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (c *call) warn(text string) {
	runes := []rune(strings.Map(printable, strings.ToValidUTF8(text, "\uFFFD")))
	if len(runes) > maxWarning {
		runes = append(runes[:maxWarning-1], '…')
	}
	text = strings.TrimSpace(string(runes))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case text == "" || slices.Contains(c.warnings, text):
	case c.size+len(runes) > maxWarnings-maxWarning: // the last one has room
		c.more++
	default:
		c.warnings = append(c.warnings, text)
		c.size += len(runes)
	}
}

func printable(r rune) rune {
	if unicode.IsControl(r) {
		return ' '
	}
	return r
}

// told returns the warnings of the answer.
func (c *call) told() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	told := slices.Clone(c.warnings)
	if c.more > 0 {
		told = append(told, fmt.Sprintf("… and %d more warnings", c.more))
	}
	return told
}
