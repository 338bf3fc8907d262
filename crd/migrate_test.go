package crd

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Owners of fields move to the storage version if theirs is not served. Entries that become alike are joined.
func TestMoved(t *testing.T) {
	d := &Definition{Spec: Spec{Group: "example.com", Versions: []Version{
		{Name: "v2", Served: true, Storage: true}, {Name: "v1"}, {Name: "v3", Served: true},
	}}}
	entry := func(manager, version, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: "Apply", APIVersion: version,
			FieldsV1: metav1.NewFieldsV1(fields)}
	}
	served := []metav1.ManagedFieldsEntry{entry("a", "example.com/v2", `{}`), entry("a", "example.com/v3", `{}`)}
	if got := moved(d, served); got != nil {
		t.Errorf("served versions: %v", got)
	}
	got := moved(d, []metav1.ManagedFieldsEntry{
		entry("a", "example.com/v1", `{"f:spec":{"f:a":{},"f:b":{"k:1":{}}}}`),
		entry("b", "example.com/v0", `{"f:spec":{"f:c":{}}}`),
		entry("a", "example.com/v2", `{"f:spec":{"f:b":{".":{}},"f:d":{}}}`),
		entry("a", "example.com/v3", `{"f:spec":{}}`), entry("c", "v1", `{}`), entry("d", "", `{}`),
	})
	want := []string{
		`a example.com/v2 {"f:spec":{"f:a":{},"f:b":{".":{},"k:1":{}},"f:d":{}}}`, `b example.com/v2 {"f:spec":{"f:c":{}}}`,
		`a example.com/v3 {"f:spec":{}}`, `c example.com/v2 {}`, `d example.com/v2 {}`,
	}
	if len(got) != len(want) {
		t.Fatalf("%v", got)
	}
	for i, e := range got {
		if text := e.Manager + " " + e.APIVersion + " " + e.FieldsV1.GetRawString(); text != want[i] {
			t.Errorf("%s\nwant %s", text, want[i])
		}
	}
}

// A migration has ended for the versions that were served then.
func TestMigrated(t *testing.T) {
	d := &Definition{Spec: Spec{Versions: []Version{
		{Name: "v1", Served: true}, {Name: "v2", Served: true, Storage: true},
	}}}
	d.Status.StoredVersions = []string{"v2"}
	if isMigrated(d) {
		t.Error("it was never migrated")
	}
	d.Annotations = map[string]string{migratedAnnotation: versionsOf(d)}
	if !isMigrated(d) || versionsOf(d) != "v2,v1" {
		t.Error("it was migrated", versionsOf(d))
	}
	if d.Spec.Versions[0].Served = false; isMigrated(d) {
		t.Error("a version is not served any more, and may have owners of fields")
	}
	d.Annotations[migratedAnnotation] = versionsOf(d)
	if d.Status.StoredVersions = []string{"v1", "v2"}; isMigrated(d) {
		t.Error("objects may be stored in v1")
	}
}
