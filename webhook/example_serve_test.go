package webhook_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/certificate"
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/metrics"
	"github.com/pintle-go/pintle/webhook"
)

// A program that does not use package program serves hooks at the port of its controllers. Its issuer puts
// its authority into the configurations, which the manifests have.
func ExampleServe() {
	serve := func(ctx context.Context, client *kube.Client) error {
		hook := webhook.Default(kube.For[Book](client), func(context.Context, *Book) error { return nil })
		issuer := &certificate.Issuer{
			Client: client, Service: "library", Targets: []certificate.Target{certificate.MutatingWebhooks("library")},
		}
		options := controller.Options{Address: ":8443"}
		if err := webhook.Serve(&options, issuer, hook); err != nil {
			return err
		}
		return controller.Run(ctx, options)
	}
	fmt.Println(serve != nil)
	// Output: true
}

// The configurations of hooks, for the Service of a program, and for a program outside of the cluster.
func ExampleRegistration_Configurations() {
	hook := webhook.Default(kube.For[Book](&kube.Client{}), func(context.Context, *Book) error { return nil })
	if err := webhook.Check(hook); err != nil {
		fmt.Println(err)
		return
	}
	kinds := []kube.Kind{{GVK: Book{}.GVK(), Plural: "books", Scope: kube.Namespaced}}
	for _, r := range []webhook.Registration{
		{Name: "library", Namespace: "city", Service: "library", Port: 8443, Kinds: kinds},
		{Name: "library-dev", URL: "https://127.0.0.1:9443", CABundle: []byte("PEM"), Kinds: kinds, Development: true},
	} {
		configurations, err := r.Configurations(hook)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, c := range configurations {
			fmt.Println(c.Kind, c.Name, c.Webhooks[0].FailurePolicy)
		}
	}
	// Output:
	// MutatingWebhookConfiguration library Fail
	// MutatingWebhookConfiguration library-dev Ignore
}

// A hook of a kind of Kubernetes is as narrow as it can be.
func ExampleSettings() {
	deployments := kube.For[appsv1.Deployment](&kube.Client{})
	hook := webhook.Validate(deployments, webhook.Checks[appsv1.Deployment]{
		Delete: func(context.Context, *appsv1.Deployment) error { return errors.New("it is in use") },
	}, webhook.Settings{
		FailurePolicy: webhook.Fail, Timeout: 3 * time.Second, Objects: "library.example.com/kept=yes",
		When:        map[string]string{"not-the-collector": "!request.userInfo.username.endsWith(':generic-garbage-collector')"},
		SideEffects: false,
	})
	fmt.Println(webhook.Check(hook))
	// Output: <nil>
}

// The request tells a function who asks for what.
func ExampleRequest() {
	check := func(ctx context.Context, o *corev1.PodExecOptions) error {
		q := webhook.Request(ctx)
		if q.User.Name == "system:admin" || q.DryRun {
			return nil
		}
		return fmt.Errorf("%s of %s %s/%s %s (request %s, options %d bytes, sent as %s) is not allowed", q.Operation,
			q.Kind.Kind, q.Namespace, q.Name, q.Subresource, q.UID, len(q.Options), q.RequestKind.Kind)
	}
	pods := kube.For[corev1.Pod](&kube.Client{})
	hook := webhook.Validate(webhook.Sub[corev1.PodExecOptions](pods, "exec"),
		webhook.Checks[corev1.PodExecOptions]{Connect: check})
	fmt.Println(hook.Path())
	// Output: /webhook/validate/core/v1/pod/exec
}

// A server of one's own answers as the port of a program does.
func ExampleHandler() {
	hook := webhook.Default(kube.For[Book](&kube.Client{}), func(context.Context, *Book) error { return nil },
		webhook.Settings{FailurePolicy: webhook.Ignore})
	handler, err := webhook.Handler(webhook.Options{
		Logger: slog.Default(), Metrics: metrics.New(), MaxBytes: 16 << 20, Settling: time.Minute,
		Draining: func() bool { return false }, Now: time.Now, Ignore: true,
	}, hook)
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/webhook/", handler)
	fmt.Println(mux != nil)
	// Output: true
}

// Shelf is a kind with two versions.
type Shelf struct {
	kube.Object
	Spec struct {
		Width int32 `json:"width"`
	} `json:"spec"`
}

// GVK returns the kind.
func (Shelf) GVK() kube.GVK {
	return kube.GVK{Group: "library.example.com", Version: "v2", Kind: "Shelf"}
}

// ShelfV1 is the version before.
type ShelfV1 struct {
	kube.Object
	Spec struct {
		Size string `json:"size"`
	} `json:"spec"`
}

// GVK returns the kind.
func (ShelfV1) GVK() kube.GVK {
	return kube.GVK{Group: "library.example.com", Version: "v1", Kind: "Shelf"}
}

// The hook of a definition converts its objects between the versions.
func ExampleConvert() {
	definition := crd.Join(crd.Of[Shelf](crd.Options{}), crd.Converts(crd.Of[ShelfV1](crd.Options{}),
		func(from *ShelfV1, to *Shelf) error {
			_, err := fmt.Sscanf(from.Spec.Size, "%d cm", &to.Spec.Width)
			return err
		},
		func(from *Shelf, to *ShelfV1) error {
			to.Spec.Size = fmt.Sprintf("%d cm", from.Spec.Width)
			return nil
		},
	))
	fmt.Println(strings.TrimPrefix(webhook.Convert(definition).Path(), "/webhook"))
	// Output: /convert/library.example.com/shelf
}
