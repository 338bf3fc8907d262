package crd_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// A Timer of v2 has a zone, which one of v1 lacks.
type Timer struct {
	kube.Object
	Spec struct {
		Schedule string `json:"schedule"`
		Zone     string `json:"zone,omitempty"`
	} `json:"spec"`
}

func (Timer) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v2", Kind: "Timer"} }

type TimerV1 struct {
	kube.Object
	Spec struct {
		Cron string `json:"cron"`
	} `json:"spec"`
}

func (TimerV1) GVK() kube.GVK { return kube.GVK{Group: "example.com", Version: "v1", Kind: "Timer"} }

// Timers are stored in v2. The zone needs no code: an object that is shown in v1 keeps it.
func ExampleConverts() {
	definition := crd.Join(
		crd.Of[Timer](crd.Options{}),
		crd.Converts(crd.Of[TimerV1](crd.Options{}),
			func(from *TimerV1, to *Timer) error {
				to.Spec.Schedule = from.Spec.Cron
				return nil
			},
			func(from *Timer, to *TimerV1) error {
				to.Spec.Cron = from.Spec.Schedule
				return nil
			}),
	)
	old, err := definition.Convert([]byte(`{"apiVersion":"example.com/v2","kind":"Timer","metadata":{"name":"a"},
		"spec":{"schedule":"@daily","zone":"UTC"}}`), "v1")
	if err != nil {
		fmt.Println(err)
	}
	back, err := definition.Convert(old, "v2")
	fmt.Println(string(back), err)
	_, err = definition.Convert(old, "v3")
	fmt.Println(errors.Is(err, crd.ErrVersion))
	// Output:
	// {"apiVersion":"example.com/v2","kind":"Timer","metadata":{"name":"a"},"spec":{"schedule":"@daily","zone":"UTC"}} <nil>
	// true
}

// A release that stores another version than the one before installs its definition and stores all objects
// again. This is the work of one replica, so Run of a lease calls it.
func ExampleMigrate() {
	release := func(ctx context.Context, client *kube.Client, definition *crd.Definition) error {
		if err := crd.Install(ctx, client, definition); err != nil {
			return err
		}
		return crd.Migrate(ctx, client, definition, crd.MigrateOptions{Rate: 50})
	}
	_ = release
}
