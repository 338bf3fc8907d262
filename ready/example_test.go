package ready_test

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/ready"
)

// A Job has ended when it is complete or has failed.
func Example() {
	client, err := kube.Connect()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	jobs := kube.For[batchv1.Job](client).In("default")
	job, err := jobs.Until(ctx, "migrate", ready.HasEnded)
	if err != nil {
		fmt.Println(err)
		return
	}
	if state := ready.Of(job); state.Phase == ready.Failed {
		fmt.Println(state.Message)
	}
}
