package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorded returns a configuration that was sent to a real compute.
func recorded(t testing.TB, name string) (Config, []byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return c, data
}

func names(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/compute-*.json")
	if err != nil || len(paths) < 10 {
		t.Fatalf("recorded configurations: %v, %v", paths, err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

func TestRecordedConfigurationsKeepTheirForm(t *testing.T) {
	t.Parallel()
	for _, name := range names(t) {
		c, data := recorded(t, name)
		again, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plainJSON(t, data), plainJSON(t, again)); diff != "" {
			t.Errorf("%s (-recorded +encoded):\n%s", name, diff)
		}
	}
}

func plainJSON(t testing.TB, data []byte) any {
	t.Helper()
	var v any
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestRecordedConfigurationsAreJudgedAsTheRealComputeDid(t *testing.T) {
	t.Parallel()
	bad := map[string]string{
		"compute-BAD-database-owner.json":      `database "bad": its owner "nobodyrole" is none of the roles`,
		"compute-BAD-rename-unknown-role.json": `rename_role "ghost"`,
		// The real compute took this one, and made a second role in place of renaming the first.
		"compute-delta-operations-rename.json": `rename_role`,
	}
	for _, name := range names(t) {
		c, _ := recorded(t, name)
		err := c.Validate()
		want, isBad := bad[name]
		switch {
		case isBad && (!errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", name, err, want)
		case !isBad && err != nil:
			t.Errorf("%s, which a real compute accepted: %v", name, err)
		}
	}
}

func TestDecodeRefusesUnknownFields(t *testing.T) {
	t.Parallel()
	_, data := recorded(t, "compute-primary.json")
	data = bytes.Replace(data, []byte(`"tenant_id"`), []byte(`"tenant"`), 1)
	if _, err := Decode(data); err == nil {
		t.Error("Decode accepts an unknown field")
	}
}
