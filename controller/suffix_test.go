package controller

import (
	"testing"

	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// Stores of one kind that belong to several clients have names of their own in metrics.
func TestStoresOfSeveralClients(t *testing.T) {
	connect := func(host string) *kube.Client {
		client, err := kube.Config{Rest: &rest.Config{Host: host}}.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		return client
	}
	mine, other, far, third := connect("https://a"), connect("https://a"), connect("https://b"), connect("https://a")
	all := new(clients)
	for range 2 {
		for _, test := range []struct {
			client *kube.Client
			want   string
		}{{mine, ""}, {other, " at https://a (2)"}, {far, " at https://b"}, {third, " at https://a (3)"}} {
			if got := all.suffix(test.client); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		}
	}
}
