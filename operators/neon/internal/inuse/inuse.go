// Package inuse holds up the deletion of objects that others need.
package inuse

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// Names returns the names of objects.
func Names[T any, P interface {
	*T
	metav1.Object
}](objects iter.Seq2[*T, error]) (names []string, err error) {
	for o, err := range objects {
		if err != nil {
			return nil, err
		}
		names = append(names, P(o).GetName())
	}
	slices.Sort(names)
	return names, nil
}

// Hold says in the condition Ready of an object, which is being deleted, that users need it.
// It returns the action of a cleanup. The cleanup is called again when a user goes: the
// controller watches them.
func Hold[T any, P interface {
	*T
	metav1.Object
}](
	ctx context.Context, objects kube.Resource[T], o P, conditions *[]metav1.Condition, kind string, users []string,
) (controller.Action, error) {
	message := fmt.Sprintf("%s need it: %s; delete them first", kind, strings.Join(users[:min(len(users), 5)], ", "))
	return Refuse(ctx, objects, o, conditions, "InUse", message)
}

// Refuse says in the condition Ready of an object, which is being deleted, why it stays. It
// returns the action of a cleanup, which is called again when the object changes.
func Refuse[T any, P interface {
	*T
	metav1.Object
}](
	ctx context.Context, objects kube.Resource[T], o P, conditions *[]metav1.Condition, reason, message string,
) (controller.Action, error) {
	controller.SetCondition(o, conditions, metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
	return controller.After(time.Hour), objects.Status().Ensure(ctx, (*T)(o))
}
