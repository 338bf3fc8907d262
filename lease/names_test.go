package lease

import (
	"strconv"
	"strings"
	"testing"
)

// A name or a namespace that no server takes is a mistake of the lease, which is named
// before any request.
func TestNamesOfLeases(t *testing.T) {
	client, _ := newServer().connect(t, "a")
	for _, name := range []string{"One", "one_lease", "one/two", "-one", "one.", "..", strings.Repeat("x", 254)} {
		for what, l := range map[string]Lease{
			"name":      {Client: client, Name: name},
			"namespace": {Client: client, Name: "one", Namespace: name},
		} {
			for by, err := range map[string]error{"Validate": l.Validate(), "Run": l.Run(t.Context(), nil)} {
				if err == nil || !strings.Contains(err.Error(), strconv.Quote(name)+" cannot be the "+what) {
					t.Errorf("%s %q: error of %s: %v", what, name, by, err)
				}
			}
		}
	}
	for _, l := range []Lease{
		{Name: "one"}, {Name: "one.example.com", Namespace: "a-b"}, {Name: "1", Namespace: strings.Repeat("x", 63)},
	} {
		if err := l.Validate(); err != nil {
			t.Errorf("%s in %q: %v", l.Name, l.Namespace, err)
		}
	}
	if err := (Lease{Name: "one", Namespace: "a.b"}).Validate(); err == nil {
		t.Error("a namespace with a dot is accepted")
	}
}
