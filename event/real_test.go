package event

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/kubetest"
)

// TestOnServer checks that a real server accepts the events and shows them.
func TestOnServer(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a cluster")
	}
	cluster := kubetest.Start(t, kubetest.Options{ServerOnly: true})
	client, err := kube.Config{Rest: cluster.Config()}.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	namespace := cluster.Namespace(t)
	subject := new(corev1.ConfigMap)
	subject.Name = strings.Repeat("long.name.", 25) + "end" // the longest possible name
	subject, err = kube.For[corev1.ConfigMap](client).In(namespace).Create(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}

	r := &Recorder{Client: client, Controller: "example.com/echo", grace: time.Minute}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	for range 10 {
		r.Warning(subject, "Failed", "because of %s", strings.Repeat("x\xff", 2000))
	}
	events := kube.For[eventsv1.Event](client).In(namespace)
	kubetest.Eventually(t, "the event is there", func() error { // later ones make it a series
		for e, err := range events.List(t.Context()) {
			if err != nil || e.Regarding.UID == subject.UID {
				return err
			}
		}
		return errors.New("there is none")
	})
	for range 5 {
		r.Warning(subject, "Failed", "because of %s", strings.Repeat("x\xff", 2000))
	}
	r.Record(Event{Regarding: subject, Related: subject, Reason: "Linked", Action: "Link", Note: "to itself"})
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}

	found := map[string]*eventsv1.Event{}
	about := "regarding.uid=" + string(subject.UID)
	for e, err := range events.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Regarding.UID == subject.UID {
			found[e.Reason] = e
		}
	}
	failed, linked := found["Failed"], found["Linked"]
	switch {
	case len(found) != 2 || failed == nil || linked == nil:
		t.Fatalf("%s: %v", about, found)
	case failed.Series == nil || failed.Series.Count != 15:
		t.Errorf("series: %+v", failed.Series)
	case failed.Type != "Warning" || failed.ReportingController != "example.com/echo" || failed.Action != "Reconcile" || len(failed.Note) > maxNote:
		t.Errorf("%+v", failed)
	case linked.Series != nil || linked.Related == nil || linked.Related.UID != subject.UID || linked.Action != "Link":
		t.Errorf("%+v", linked)
	}
	// kubectl describe asks like this.
	n := 0
	for e, err := range kube.For[corev1.Event](client).In(namespace).Fielded("involvedObject.uid=" + string(subject.UID)).List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if e.InvolvedObject.Name == subject.Name && e.Message != "" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("by the core API there are %d events about it", n)
	}
}
