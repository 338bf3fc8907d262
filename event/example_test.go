package event_test

import (
	"context"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pintle-go/pintle/event"
	"github.com/pintle-go/pintle/kube"
)

// A backup records by itself why a volume could not be saved. Failure does not repeat that: it
// records the error of the whole backup only if no Warning has it already.
func ExampleRecorder_Failure() {
	events := &event.Recorder{Controller: "example.com/backup"} // controller.Options names it
	backup := func(ctx context.Context, claim *corev1.PersistentVolumeClaim, save func(context.Context) error) error {
		start := time.Now()
		err := save(ctx)
		if err != nil {
			events.Failure(claim, start, "BackupFailed", err)
		}
		return err
	}
	_ = backup
}

// In an operator, controller.Run runs the recorder that its Options name.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	events := &event.Recorder{Client: client, Controller: "example.com/painter"}
	ended := make(chan error, 1)
	go func() { ended <- events.Run(ctx) }()

	node, err := kube.For[corev1.Node](client).Get(ctx, "node-1")
	if err != nil {
		log.Fatal(err)
	}
	brush, err := kube.For[corev1.ConfigMap](client).In("default").Get(ctx, "brush")
	if err != nil {
		log.Fatal(err)
	}
	events.Normal(node, "Painted", "the node is %s", "blue")
	events.Warning(node, "PaintLow", "there is paint for %d more nodes", 2)
	events.Record(event.Event{
		Regarding: node, Related: brush, Warning: true, Reason: "BrushBroken", Action: "Paint", Note: "the brush is broken",
	})

	stop() // Run writes the remaining events and returns
	if err := <-ended; err != nil {
		log.Print(err)
	}
}
