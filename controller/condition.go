package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// SetCondition puts a condition into a list, in the place of the one of its type,
// and returns whether that changed anything. The time of the last transition
// changes only with the status. The observed generation is that of o. It is
// meta.SetStatusCondition of apimachinery, with a result that every API server
// takes if the type is valid:
//   - The default reason is the type, because the API asks for one, and the
//     default status is Unknown.
//   - A character that a reason may not have becomes an underscore, and
//     the prefix of the type is left out of a default: the reason of
//     example.com/Ready is Ready.
//   - Text that is too long is cut.
//
// For example:
//
//	controller.SetCondition(e, &e.Status.Conditions, metav1.Condition{
//		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Scaling", Message: "2 of 3 servers are ready",
//	})
func SetCondition(o metav1.Object, conditions *[]metav1.Condition, c metav1.Condition) (changed bool) {
	c.ObservedGeneration = o.GetGeneration()
	c.Reason = reasonWord(cmp.Or(c.Reason, c.Type[strings.LastIndex(c.Type, "/")+1:]))
	c.Status = cmp.Or(c.Status, metav1.ConditionUnknown)
	c.Message = strings.ToValidUTF8(c.Message, "\uFFFD")
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage-len(cut)], "") + cut
	}
	if c.LastTransitionTime.IsZero() {
		c.LastTransitionTime = metav1.Now()
	}
	// Whole seconds, as the server keeps them: a condition that is read equals the
	// one that was written.
	c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Truncate(time.Second))
	for i := range *conditions {
		was := &(*conditions)[i]
		if was.Type != c.Type {
			continue
		}
		if was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		if *was == c {
			return false
		}
		*was = c
		return true
	}
	*conditions = append(*conditions, c)
	return true
}

// The API server's limits.
const (
	maxMessage = 32768
	maxReason  = 1024
	cut        = " …"
)

// reasonWord makes of a text a reason that the API takes: a letter, and then
// letters, digits, underscores, commas and colons, of which the last two do not end
// it.
func reasonWord(s string) string {
	s = strings.Map(func(r rune) rune {
		if isLetter(r) || r == '_' || '0' <= r && r <= '9' || r == ',' || r == ':' {
			return r
		}
		return '_'
	}, s)
	if s == "" || !isLetter(rune(s[0])) {
		s = "Is" + s
	}
	return strings.TrimRight(s[:min(len(s), maxReason)], ",:")
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

// StatusWriter is a [kube.Resource] or [kube.View].
type StatusWriter[T any] interface {
	ApplyStatus(ctx context.Context, o *T) error
}

// ApplyStatus writes the status of the object that a reconcile is for, if it is
// another than was read or last written: an unchanged status costs no request. ctx
// is the reconcile's. The status of another object is written in any case.
func ApplyStatus[T any](ctx context.Context, w StatusWriter[T], o *T) error {
	r, ok := ctx.Value(runKey{}).(*run)
	acc, isObject := any(o).(metav1.Object)
	if !ok || !isObject || acc.GetUID() != r.uid {
		return w.ApplyStatus(ctx, o)
	}
	now := statusOf(o)
	r.mu.Lock()
	same := now != "" && now == r.status
	r.mu.Unlock()
	if same {
		return nil
	}
	if err := w.ApplyStatus(ctx, o); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status, r.blank = now, ""
	if zeroStatus(o) {
		r.blank = r.uid
	}
	return nil
}

// statusOf returns the status of an object, encoded; nothing if it has none or
// it cannot be told.
func statusOf(o any) string {
	status, ok := statusField(o)
	if !ok {
		return ""
	}
	encoded, err := json.Marshal(status)
	if err != nil {
		return ""
	}
	return string(encoded)
}

// zeroStatus reports that nothing is set in the status of an object.
func zeroStatus(o any) bool {
	status, ok := statusField(o)
	return !ok || status == nil || reflect.ValueOf(status).IsZero()
}

// statusField returns the field of an object that is its status in JSON.
func statusField(o any) (status any, ok bool) {
	if u, ok := o.(runtime.Unstructured); ok {
		status, ok := u.UnstructuredContent()["status"]
		return status, ok
	}
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == "status" {
			return v.Field(i).Interface(), true
		}
	}
	return nil, false
}

// read notes the object that a reconcile is for, whose blank status was written
// before.
func (r *run) read(o metav1.Object, blank types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.uid, r.blank = o.GetUID(), ""
	r.status = statusOf(o)
	if zeroStatus(o) {
		if blank != r.uid {
			r.status = "" // there may be none
		}
		r.blank = blank
	}
}
