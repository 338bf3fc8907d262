package kube

import (
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// If this process has deleted an object and a listing has an object that cannot be read,
// the two are not taken for the same.
func TestOwnDeletionsAndObjectsThatCannotBeRead(t *testing.T) {
	ownWritesTest(t, asIs, func(c *ownCase) {
		loop := follow(c.T, c.store.Watch, noteOfConfigMap)
		loop.taken()
		c.s.lists(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet {
				return nil, nil
			}
			return answer(200, typeProtobuf,
				protobufList(metav1.ListMeta{ResourceVersion: modelVersion(modelObject{rv: c.s.rv})}, []byte("\xff\xff"))), nil
		})
		c.remove("a")
		c.wantNote("a", "")
		c.s.loseHistory()
		time.Sleep(time.Minute)
		c.wantNote("a", "")
		wantLines(c.T, "a loop", loop.taken(), "DELETED default/a one")
	})
}
