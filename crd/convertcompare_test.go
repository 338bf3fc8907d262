package crd_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pintle-go/pintle/crd"
	"github.com/pintle-go/pintle/kube"
)

// Functions lose no field. A release that cannot convert does, and so does one without a version in which
// objects may be stored.
func TestCompareConverting(t *testing.T) {
	var o crd.Options
	v1, v2 := crd.Of[JobV1](o), crd.Of[Job](o)
	converting := jobs(t)
	stored := func(d *crd.Definition, versions ...string) *crd.Definition {
		live := *d
		live.Status.StoredVersions = versions
		return &live
	}
	back := crd.Join(v1, crd.Converts(v2, toV1, toV2))
	for name, c := range map[string]struct {
		live, next *crd.Definition
		want       string
	}{
		"v2 is added":     {stored(v1, "v1"), converting, ""},
		"v1 was migrated": {stored(converting, "v2"), v2, ""},
		"v1 was not migrated": {stored(converting, "v1", "v2"), v2,
			"v1: the version is removed, and objects may be stored in it: migrate them first"},
		"back to both":          {stored(converting, "v1", "v2"), back, ""},
		"back to v1":            {stored(converting, "v1", "v2"), v1, "v2: the version is removed"},
		"back to names alone":   {stored(converting, "v2"), crd.Join(v2, v1), "v2 as v1: .spec.zone: the field is removed"},
		"the functions are new": {stored(crd.Join(v2, v1), "v2"), converting, ""},
		"v1 loses a field of both": {stored(v1, "v1"), crd.Join(v2, nothing[LessV1, Job](o)),
			"v1: .spec.contact: the field is removed"},
	} {
		breaks := crd.Compare(c.live, c.next)
		has := func(b string) bool { return strings.HasPrefix(b, c.want) }
		if c.want == "" && len(breaks) > 0 || c.want != "" && !slices.ContainsFunc(breaks, has) {
			t.Errorf("%s: %q", name, breaks)
		}
	}
}

// LessV1 is a v1 with less.
type LessV1 struct {
	kube.Object
	Spec struct {
		Cron string `json:"cron"`
	} `json:"spec"`
}

func (LessV1) GVK() kube.GVK { return JobV1{}.GVK() }
