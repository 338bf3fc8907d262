package controller_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/kube"
)

// oneGreeting plays an API server with one Greeting that does not change.
type oneGreeting struct{}

func (oneGreeting) RoundTrip(r *http.Request) (*http.Response, error) {
	const meta = `"apiVersion":"example.com/v1","metadata":{"resourceVersion":"1"`
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}}
	switch {
	case r.URL.Path == "/apis/example.com/v1":
		answer.Body = io.NopCloser(strings.NewReader(`{"kind":"APIResourceList","resources":[
			{"name":"greetings","kind":"Greeting","namespaced":true}]}`))
	case r.URL.Query().Get("watch") == "true":
		events, w := io.Pipe() // there are no events
		context.AfterFunc(r.Context(), func() { w.CloseWithError(r.Context().Err()) })
		answer.Body = events
	default:
		answer.Body = io.NopCloser(strings.NewReader(`{"kind":"GreetingList",` + meta + `},"items":[
			{"kind":"Greeting",` + meta + `,"namespace":"default","name":"first","uid":"1"}}]}`))
	}
	return answer, nil
}

// TestRetries runs a controller for a day, which takes a few milliseconds.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kube.Config{Rest: &rest.Config{Host: "http://played", Transport: oneGreeting{}}}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		begun := time.Now()
		var runs []time.Duration
		ctx, stop := context.WithTimeout(t.Context(), 24*time.Hour)
		defer stop()
		err = controller.Run(ctx, controller.Options{}, controller.Controller[Greeting]{
			For:     kube.For[Greeting](client),
			Backoff: controller.Backoff{Min: time.Minute, Max: time.Hour},
			Reconcile: func(context.Context, *Greeting) (controller.Action, error) {
				runs = append(runs, time.Since(begun))
				if len(runs) < 4 {
					return controller.Done, errors.New("the printer is out of paper")
				}
				return controller.After(12 * time.Hour), nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		// Three retries take less than 1 + 2 + 4 minutes.
		if n := len(runs); n != 5 || runs[3] > 7*time.Minute || runs[4]-runs[3] != 12*time.Hour {
			t.Errorf("reconciled at %v", runs)
		}
	})
}
