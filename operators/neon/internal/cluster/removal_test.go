package cluster

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// TestLateRemoval removes a pageserver that answers and has not handed its data over for long. It is removed by
// force only while another one can take the data.
func TestLateRemoval(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		other  upstream.Node
		forced bool
	}{
		"the other one is Active":  {upstream.Node{Availability: upstream.NodeActive, Scheduling: upstream.ScheduleActive}, true},
		"the other one is dead":    {upstream.Node{Availability: upstream.NodeOffline, Scheduling: upstream.ScheduleActive}, false},
		"the other one is removed": {upstream.Node{Availability: upstream.NodeActive, Scheduling: upstream.ScheduleDeleting}, false},
	} {
		is := upstream.Node{ID: 2, Availability: upstream.NodeActive, Scheduling: upstream.ScheduleActive}
		c.other.ID = 1
		forced := false
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var answer any
			switch {
			case r.Method == http.MethodPut:
				forced = forced || r.URL.Query().Get("force") == "true"
			case strings.HasSuffix(r.URL.Path, "/node/2"):
				answer = is
			default:
				answer = []upstream.Node{c.other, is}
			}
			if err := json.NewEncoder(w).Encode(answer); err != nil {
				t.Error(err)
			}
		}))
		sc := upstream.NewController(upstream.Config{URL: server.URL, HTTP: server.Client()})
		removal := removal{
			name: "data/main/2", begun: time.Now().Add(-time.Hour), limit: time.Minute, forced: new(removals),
			alive: func(context.Context) error { return nil },
		}
		err := removal.remove(t.Context(), sc, 2)
		server.Close()
		if forced != c.forced || (err == nil) != c.forced {
			t.Errorf("%s: by force: %t, %v", name, forced, err)
		}
	}
}
