package lease_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/lease"
)

// Of all processes that run this, one works at a time.
func Example() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	election := lease.Lease{Client: client, Namespace: "default", Name: "nightly-report"}
	err = election.Run(context.Background(), func(ctx context.Context) error {
		log.Print("this process has the lease")
		<-ctx.Done() // work until ctx ends, and write with ctx only
		return nil
	})
	if errors.Is(err, lease.ErrLost) {
		log.Fatal(err) // another process has it
	}
}

// A standby has its store filled when it gets the lease. Its watch may not have shown the last
// writes of the former holder yet, so it refreshes the store before it decides anything.
// Package controller does so by itself.
func Example_standby() {
	ctx := context.Background()
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	reports := kube.For[corev1.ConfigMap](client).In("default").Labeled("app=report")
	informer := reports.Open(ctx)
	if err := informer.Sync(ctx); err != nil {
		log.Fatal(err)
	}
	election := lease.Lease{Client: client, Namespace: "default", Name: "nightly-report"}
	err = election.Run(ctx, func(ctx context.Context) error {
		if err := informer.Refresh(ctx); err != nil {
			return err
		}
		for report, err := range reports.Cached().All(ctx) {
			if err != nil {
				return err
			}
			log.Print(report.Name, " is there already")
		}
		<-ctx.Done() // write the other reports until ctx ends
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// The end of ctx asks the work to stop. The process still holds the lease then, and may write
// with Held, for example how far it came.
func ExampleHeld() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	progress := kube.For[corev1.ConfigMap](client).In("default")
	election := lease.Lease{Client: client, Namespace: "default", Name: "nightly-report"}
	err = election.Run(context.Background(), func(ctx context.Context) error {
		done := 0
		for ctx.Err() == nil {
			done++ // one part of the work
		}
		_, err := progress.Apply(lease.Held(ctx), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "nightly-report"},
			Data:       map[string]string{"done": strconv.Itoa(done)},
		})
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Some work cannot be stopped in time. If the lease were released, another process would begin
// beside it. So the lease expires instead, while this process ends.
func ExampleLease_Run_unfinished() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	election := lease.Lease{Client: client, Namespace: "default", Name: "nightly-report"}
	err = election.Run(context.Background(), func(ctx context.Context) error {
		printed := make(chan struct{})
		go func() {
			defer close(printed)
			time.Sleep(time.Hour) // a call that takes no context
		}()
		<-ctx.Done()
		select {
		case <-printed:
			return nil
		case <-time.After(10 * time.Second):
			return fmt.Errorf("print the report: %w", lease.ErrUnfinished)
		}
	})
	if err != nil {
		log.Fatal(err)
	}
}

// A program that takes the times of its lease from flags can check them before it starts.
func ExampleLease_Validate() {
	election := lease.Lease{Name: "nightly-report", Duration: 5 * time.Second, Renew: 3 * time.Second, Margin: 2 * time.Second}
	fmt.Println(election.Validate())
	// Output: a lease of 5s, renewed every 3s, is lost at once with a margin of 2s
}
