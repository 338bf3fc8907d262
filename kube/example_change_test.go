package kube_test

import (
	"context"
	"fmt"
	"log"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
)

// scaled returns the change of a Deployment from a number of replicas to another one.
func scaled(from, to int32) kube.Change {
	at := func(replicas int32) *appsv1.Deployment {
		d := new(appsv1.Deployment)
		d.Namespace, d.Name, d.Spec.Replicas = "default", "web", &replicas
		return d
	}
	change, err := kube.NewChange(at(from), at(to))
	if err != nil {
		log.Fatal(err)
	}
	return change
}

// A log line for each field that has changed, with its values.
func ExampleChange_Diff() {
	change := scaled(2, 3)
	diff, err := change.Diff()
	if err != nil {
		log.Fatal(err)
	}
	for _, field := range diff {
		fmt.Println(change.Kind(), change.Key, field.Path, "from", field.Before, "to", field.After)
	}
	// Output: Deployment default/web spec.replicas from 2 to 3
}

// A program that reports changes once a minute adds up the changes of each object.
func ExampleChange_Then() {
	pending := make(map[kube.Key]kube.Change)
	for _, change := range []kube.Change{scaled(2, 3), scaled(3, 5)} {
		pending[change.Key] = pending[change.Key].Then(change)
	}
	for key, sum := range pending {
		diff, err := sum.Diff()
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(key, diff)
	}
	// Output: default/web [{spec.replicas 2 5}]
}

// A predicate for pods that serve requests. The begin of a pod's deletion passes, because no
// more requests may go there. Later changes of the pod, while it ends, do not matter.
func ExampleChange_DeletionBegan() {
	matters := func(c kube.Change) bool { return c.DeletionBegan() || !c.Deleting() }

	serving, ending, ended := new(corev1.Pod), new(corev1.Pod), new(corev1.Pod)
	now := metav1.Now()
	ending.DeletionTimestamp, ended.DeletionTimestamp = &now, &now
	ended.Status.Phase = corev1.PodSucceeded
	begin, err := kube.NewChange(serving, ending)
	if err != nil {
		log.Fatal(err)
	}
	end, err := kube.NewChange(ending, ended)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(matters(begin), matters(end))
	// Output: true false
}

// The workload of a pod is found without decoding the pod.
func ExampleChange_Owners() {
	pod := new(corev1.Pod)
	pod.Name = "web-7d4b-x2"
	pod.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d4b", UID: "9f1c", Controller: new(true)},
		{APIVersion: "example.com/v1", Kind: "Shop", Name: "books", UID: "07ab"},
	}
	change, err := kube.NewChange(nil, pod)
	if err != nil {
		log.Fatal(err)
	}
	for owner := range change.Owners() {
		if owner.Controller {
			fmt.Println(owner.GVK.GroupKind(), owner.Name, owner.UID)
		}
	}
	// Output: ReplicaSet.apps web-7d4b 9f1c
}

// An operator sees who else writes the objects that it applies. A scaler is an example: it
// updates the subresource scale.
func ExampleChange_Managers() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	own, err := client.FieldManager()
	if err != nil {
		log.Fatal(err)
	}
	informer := kube.For[appsv1.Deployment](client).In("default").Open(ctx)
	for change := range informer.Changes(ctx) {
		fields, err := change.Fields()
		if err != nil || len(fields) == 0 {
			continue
		}
		managers, err := change.Managers(ctx, fields...)
		if err != nil {
			log.Print(err)
			continue
		}
		for field, by := range managers {
			others := slices.DeleteFunc(by, func(m kube.Manager) bool {
				return m.Name == own && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == ""
			})
			fmt.Println(change.Key, field, others) // such as default/web spec.replicas [scaler (Update of scale)]
		}
	}
}
