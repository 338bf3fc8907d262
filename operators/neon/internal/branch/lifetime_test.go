package branch

import (
	"math"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
)

// A time to live that is meant as for ever is longer than a time.Duration.
func TestLifetime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		seconds   int64
		protected bool
		left      time.Duration
		ever      bool
	}{
		"none":            {ever: true},
		"a day":           {seconds: 24 * 60 * 60, left: 23 * time.Hour},
		"over":            {seconds: 60, left: time.Minute - time.Hour},
		"protected":       {seconds: 60, protected: true, ever: true},
		"three centuries": {seconds: 9_999_999_999, ever: true},
		"the longest":     {seconds: math.MaxInt64, ever: true},
		"most of it":      {seconds: math.MaxInt64 / int64(time.Second), ever: true},
	} {
		b := new(api.NeonBranch)
		b.CreationTimestamp = metav1.NewTime(now.Add(-time.Hour))
		b.Spec.TTLSeconds, b.Spec.Protected = c.seconds, c.protected
		switch left := lifetime(b, now); {
		case c.ever && left != nil:
			t.Errorf("%s: %s is left, want for ever", name, *left)
		case !c.ever && (left == nil || *left != c.left):
			t.Errorf("%s: %v is left, want %s", name, left, c.left)
		}
	}
}
