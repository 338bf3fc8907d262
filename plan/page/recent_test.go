package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pintle-go/pintle/kube"
	"github.com/pintle-go/pintle/plan"
)

func TestRecentIsBounded(t *testing.T) {
	var r recent
	begun := time.Now()
	for i := range ownersKept + 5 {
		owner := types.UID(fmt.Sprint(i))
		for j := range turnsKept + 2 {
			failure := ""
			if j < errorsKept+1 {
				failure = fmt.Sprint("failure ", j)
			}
			r.add(owner, turn{At: begun.Add(time.Duration(i) * time.Second), Millis: int64(j), Error: failure})
		}
	}
	if len(r.of) != ownersKept {
		t.Errorf("%d owners are remembered", len(r.of))
	}
	if turns, _ := r.last("4"); turns != nil {
		t.Error("the oldest owners are remembered")
	}
	turns, failed := r.last("5")
	if len(turns) != turnsKept || turns[0].Millis != turnsKept+1 {
		t.Errorf("turns are %+v", turns)
	}
	if len(failed) != errorsKept || failed[0].Error != "failure 5" {
		t.Errorf("errors are %+v", failed)
	}
}

// More browsers than the port should serve are asked to come again.
func TestViewersAreBounded(t *testing.T) {
	p := New(kube.Reader[corev1.ConfigMap]{}, func(*corev1.ConfigMap) *plan.Status { return nil })
	for range maxViewers {
		p.viewers <- struct{}{}
	}
	answer := httptest.NewRecorder()
	p.data(answer, httptest.NewRequest(http.MethodGet, "/plans/data", nil))
	if answer.Code != http.StatusServiceUnavailable || answer.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, header %v", answer.Code, answer.Header())
	}
}
