package upstream_test

import (
	"encoding/json"
	"testing"

	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

func TestTimelineState(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]upstream.TimelineState{
		`"Active"`:  upstream.TimelineActive,
		`"Loading"`: "Loading",
		`{"Broken":{"reason":"layer file is missing","backtrace":"0: pageserver"}}`: "Broken: layer file is missing",
		`{"Later":{}}`: "Later: ",
	} {
		var got upstream.Timeline
		if err := json.Unmarshal([]byte(`{"state":`+text+`}`), &got); err != nil || got.State != want {
			t.Errorf("%s: %q, %v", text, got.State, err)
		}
	}
	for _, text := range []string{`7`, `{}`, `{"Broken":7}`, `{"a":{},"b":{}}`, `["Active"]`} {
		var got upstream.Timeline
		if err := json.Unmarshal([]byte(`{"state":`+text+`}`), &got); err == nil {
			t.Errorf("%s: %q", text, got.State)
		}
	}
}
