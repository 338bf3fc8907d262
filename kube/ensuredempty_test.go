package kube

import (
	"net/url"
	"testing"
)

// The manager of an applied status owns no field. That is as it must be if the status is
// empty. Otherwise the server ignores the name of the manager, and the write is not
// remembered: others could change the fields unseen.
func TestStatusOfNoFields(t *testing.T) {
	for status, remembered := range map[string]bool{
		`{}`: true, `{"size":{}}`: true, `{"size":1}`: false, `{"size":{"of":[]}}`: false, `null`: false,
	} {
		t.Run(status, func(t *testing.T) {
			e := newEnsuredTable(t)
			req := &request{query: url.Values{"fieldManager": {"me"}}, body: []byte(
				`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"status":` + status + `}`)}
			is := e.state(10, "", "")
			is.ManagedFields = is.ManagedFields[:1] // them
			e.ensured.begin(part{key: e.at, status: true}, e.wanted, req, Change{}).done(e.handle.client, is)
			if _, known := e.ensured.last(part{key: e.at, status: true}, e.wanted); known != remembered {
				t.Errorf("the write is remembered: %t, want %t", known, remembered)
			}
		})
	}
}
