package lease_test

import (
	"context"
	"errors"
	"log"

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
