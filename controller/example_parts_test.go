package controller_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// A predicate leaves out changes that the reconcile need not see.
func ExamplePredicate() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	pods := kube.For[corev1.Pod](client)
	moved := controller.Where(func(before, after *corev1.Pod) bool {
		return before.Spec.NodeName != after.Spec.NodeName
	})
	err = controller.Run(ctx, controller.Options{}, controller.Controller[corev1.Pod]{
		For:       pods,
		Predicate: moved, // or controller.FieldsChanged("spec.nodeName")
		Reconcile: func(ctx context.Context, p *corev1.Pod) (controller.Action, error) {
			controller.Logger(ctx).Info("the pod has a node", "node", p.Spec.NodeName)
			return controller.Done, nil
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// With Cleanup an object gets a finalizer. Its deletion waits until Cleanup returns Done.
func ExampleController_cleanup() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	greetings, texts := kube.For[Greeting](client), kube.For[corev1.ConfigMap](client)
	err = controller.Run(ctx, controller.Options{}, controller.Controller[Greeting]{
		For:       greetings,
		Watches:   []controller.Source{controller.Mapped(texts, sameName)},
		Finalizer: "example.com/greeter",
		Reconcile: func(context.Context, *Greeting) (controller.Action, error) { return controller.Done, nil },
		Cleanup: func(ctx context.Context, g *Greeting) (controller.Action, error) {
			err := texts.In(g.Namespace).Delete(ctx, g.Name)
			if apierrors.IsNotFound(err) {
				return controller.Done, nil // the finalizer is removed
			}
			return controller.Await, err // the deletion of the ConfigMap is a change
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A password is made once. Ensure needs it each time, so the reconcile takes it from the
// Secret in the store.
func ExampleController_generated() {
	ctx, stop := controller.Signals()
	defer stop()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	greetings, secrets := kube.For[Greeting](client), kube.For[corev1.Secret](client)
	err = controller.Run(ctx, controller.Options{}, controller.Controller[Greeting]{
		For:  greetings,
		Owns: []kube.AnyHandle{secrets},
		Reconcile: func(ctx context.Context, g *Greeting) (controller.Action, error) {
			password := []byte(rand.Text())
			old, err := secrets.In(g.Namespace).Cached().Get(ctx, g.Name)
			if err != nil && !apierrors.IsNotFound(err) {
				return controller.Done, err
			}
			if err == nil && len(old.Data["password"]) > 0 {
				password = old.Data["password"]
			}
			secret := &corev1.Secret{Data: map[string][]byte{"password": password}}
			secret.Name = g.Name
			if err := kube.SetController(greetings, g, secrets, secret); err != nil {
				return controller.Done, err
			}
			_, err = secrets.Ensure(ctx, secret)
			return controller.Done, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

func sameName(_ context.Context, m *corev1.ConfigMap) []kube.Key {
	return []kube.Key{kube.KeyOf(m)}
}

// A runnable runs beside the controllers. A check is part of /readyz, and of /healthz if it
// has Healthy: then the kubelet starts a stuck program again.
func ExampleRun() {
	ctx, stop := controller.Signals()
	defer stop()
	var last atomic.Pointer[time.Time]
	refresh := func(ctx context.Context) error {
		for ctx.Err() == nil { // work until the program stops
			now := time.Now()
			last.Store(&now)
			select {
			case <-ctx.Done():
			case <-time.After(time.Minute):
			}
		}
		return nil
	}
	stuck := func() error {
		if at := last.Load(); at != nil && time.Since(*at) > 10*time.Minute {
			return fmt.Errorf("the last refresh was at %s", at.Format(time.RFC3339))
		}
		return nil
	}
	err := controller.Run(ctx, controller.Options{
		Address: ":8080",
		Routes:  []controller.Route{{Pattern: "POST /upload", Handler: http.NotFoundHandler(), MaxBody: 8 << 20}},
		// Without package program, a program names the kinds that its routes convert.
		Converts:  []kube.GVK{{Group: "example.com", Version: "v1", Kind: "Greeting"}},
		Runnables: []controller.Runnable{{Name: "refresh", Run: refresh, EveryReplica: true}},
		Checks: []controller.Check{
			{Name: "disk", Ready: func(context.Context) error { return nil }},
			{Name: "refresh", Healthy: func(context.Context) error { return stuck() }},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A request to /hooks/git reconciles the Greeting that it names.
func ExampleHook() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	greetings := kube.For[Greeting](client)
	hook := controller.Hook("POST /hooks/git/{namespace}/{name}", func(r *http.Request) ([]kube.Key, error) {
		if r.Header.Get("Authorization") != "Bearer "+os.Getenv("HOOK_TOKEN") {
			return nil, errors.New("the token is wrong")
		}
		return []kube.Key{{Namespace: r.PathValue("namespace"), Name: r.PathValue("name")}}, nil
	})
	_ = controller.Controller[Greeting]{For: greetings, Watches: []controller.Source{hook}}
}

// A program that hears of changes outside the cluster reconciles the Greetings that they are about.
func ExampleChannel() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	greetings := kube.For[Greeting](client)
	changed := make(chan kube.Key) // another goroutine sends keys, and closes it at its end
	_ = controller.Controller[Greeting]{
		For:     greetings,
		Watches: []controller.Source{controller.Channel("mailbox", changed)},
	}
}
