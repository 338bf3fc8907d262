package webhook_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/webhook"
)

// Book is a kind of the program.
type Book struct {
	kube.Object
	Spec struct {
		Title string `json:"title"`
		Shelf string `json:"shelf,omitempty"`
	} `json:"spec"`
}

// GVK implements the naming of the kind.
func (Book) GVK() kube.GVK {
	return kube.GVK{Group: "library.example.com", Version: "v1", Kind: "Book"}
}

// priorityView is a view of pods.
type priorityView struct {
	kube.Object
	Spec struct {
		PriorityClassName string `json:"priorityClassName,omitempty"`
	} `json:"spec"`
}

func Example() {
	var client *kube.Client // of kube.Connect
	books := kube.For[Book](client)
	pods := kube.ViewOf[priorityView](client, kube.KindOf[corev1.Pod]())

	check := func(_ context.Context, b *Book) error {
		var all []error
		if b.Spec.Title == "" {
			all = append(all, webhook.Invalid("spec.title", b.Spec.Title, "a book has a title"))
		}
		if b.Spec.Shelf == "cellar" {
			all = append(all, webhook.Invalid("spec.shelf", b.Spec.Shelf, "the cellar is wet"))
		}
		return errors.Join(all...)
	}
	hooks := []webhook.Hook{
		webhook.Validate(books, webhook.Checks[Book]{
			Create: check,
			Update: func(ctx context.Context, before, after *Book) error {
				if before.Spec.Shelf != after.Spec.Shelf {
					webhook.Warn(ctx, "move the book, too")
				}
				return check(ctx, after)
			},
		}),
		webhook.Default(books, func(_ context.Context, b *Book) error {
			b.Spec.Shelf = cmp.Or(b.Spec.Shelf, "new")
			return nil
		}),
		webhook.Mutate(pods, func(_ context.Context, p *priorityView) error {
			p.Spec.PriorityClassName = cmp.Or(p.Spec.PriorityClassName, "readers")
			return nil
		}, webhook.Settings{Namespaces: "library=open"}),
		webhook.Validate(webhook.Sub[autoscalingv1.Scale](books, "scale"), webhook.Checks[autoscalingv1.Scale]{
			Update: func(_ context.Context, _, after *autoscalingv1.Scale) error {
				if after.Spec.Replicas > 3 {
					return errors.New("three copies are enough")
				}
				return nil
			},
		}),
	}
	for _, h := range hooks {
		fmt.Println(h.Path())
	}
	// Output:
	// /webhook/validate/library.example.com/v1/book
	// /webhook/default/library.example.com/v1/book
	// /webhook/mutate/core/v1/pod
	// /webhook/validate/library.example.com/v1/book/scale
}
