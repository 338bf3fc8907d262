package main

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestNames looks up the names of a file.
func TestNames(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hosts.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := resolver(file)
	write(`{"main-broker.data.svc":"127.9.8.7","main-broker.data.svc:5432":"127.9.8.7:55433"}`)
	found, err := r.LookupHost(t.Context(), "main-broker.data.svc")
	if err != nil || !slices.Equal(found, []string{"127.9.8.7"}) {
		t.Errorf("found %v, %v", found, err)
	}
	var missing *net.DNSError
	if _, err := r.LookupHost(t.Context(), "other.data.svc"); !errors.As(err, &missing) || !missing.IsNotFound {
		t.Errorf("a name that is not there: %v", err)
	}
	write(`{"other.data.svc":"127.9.8.6"}`)
	if found, err = r.LookupHost(t.Context(), "other.data.svc"); err != nil || !slices.Equal(found, []string{"127.9.8.6"}) {
		t.Errorf("a name that came later: %v, %v", found, err)
	}
}
