package endpoint

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/operators/neon/api"
	"github.com/pintle-go/pintle/operators/neon/internal/spec"
)

// resources returns the resources of a compute's pod. An endpoint that asks for nothing gets enough to
// start: the scheduler would put any number of computes on a node otherwise. Its disk is limited, so
// that a compute cannot fill that of its node.
func resources(e *api.NeonEndpoint) corev1.ResourceRequirements {
	all := *e.Spec.Resources.DeepCopy()
	for name, least := range map[corev1.ResourceName]resource.Quantity{
		corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		corev1.ResourceEphemeralStorage: *resource.NewQuantity(fileCache(e)+diskBase, resource.BinarySI),
	} {
		_, asks := all.Requests[name]
		_, limited := all.Limits[name] // it is the request too, by Kubernetes' own rule
		if asks || limited {
			continue
		}
		if all.Requests == nil {
			all.Requests = corev1.ResourceList{}
		}
		all.Requests[name] = least
	}
	if _, limited := all.Limits[corev1.ResourceEphemeralStorage]; !limited {
		if all.Limits == nil {
			all.Limits = corev1.ResourceList{}
		}
		all.Limits[corev1.ResourceEphemeralStorage] = *resource.NewQuantity(disk(e), resource.BinarySI)
	}
	return all
}

// memory returns the memory by which a compute's settings are chosen, 0 if the spec says nothing.
func memory(e *api.NeonEndpoint) int64 {
	for _, list := range []corev1.ResourceList{e.Spec.Resources.Limits, e.Spec.Resources.Requests} {
		if m, ok := list[corev1.ResourceMemory]; ok {
			return m.Value()
		}
	}
	return 0
}

// A compute's disk is a part of its node's. It has the cache of pages, which grows to its size, the
// first data and WAL, and temporary files.
const (
	diskBase = 1 << 30  // for data and WAL
	diskRoom = 10 << 30 // for all but the cache
)

// disk returns the limit of a compute's disk.
func disk(e *api.NeonEndpoint) int64 {
	if limit, ok := e.Spec.Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
		return limit.Value()
	}
	asks := e.Spec.Resources.Requests[corev1.ResourceEphemeralStorage]
	return max(fileCache(e)+diskRoom, asks.Value())
}

// fileCache returns the size of a compute's cache of pages, which is a file on the node's disk. Its
// pages are in the node's memory too as long as there is room: half of the compute's memory, so
// that sessions have the rest. It has at most half of a disk that the spec limits.
func fileCache(e *api.NeonEndpoint) int64 {
	for name, value := range e.Spec.Settings {
		if size, ok := spec.Megabytes(value); ok && strings.EqualFold(name, spec.FileCache) {
			return size
		}
	}
	size := memory(e)
	if size == 0 {
		size = 1 << 30
	}
	size /= 2
	if limit, ok := e.Spec.Resources.Limits[corev1.ResourceEphemeralStorage]; ok {
		size = min(size, limit.Value()/2)
	}
	return size
}

// temporary returns the room that one session has for temporary files: half of all there is. A query
// that needs more fails. Without that, the kubelet would end the compute, with all sessions.
func temporary(e *api.NeonEndpoint) int64 {
	const least, most = 64 << 20, 1 << 40 // PostgreSQL takes up to 2 TB
	return min(max((disk(e)-fileCache(e)-diskBase)/2, least), most)
}

// fits returns an error if a compute's disk cannot hold its cache of pages: the kubelet would end it again
// and again.
func fits(e *api.NeonEndpoint) error {
	if cache, limit := fileCache(e), disk(e); cache >= limit {
		return fmt.Errorf("setting %s: %d MiB do not fit in resources.limits.ephemeral-storage, which are %d MiB",
			spec.FileCache, cache>>20, limit>>20)
	}
	return nil
}

// sharedMemory is the volume for PostgreSQL's dynamic shared memory, which parallel queries need. A
// container's own has 64 MiB. It counts as the pod's memory as far as it is used.
func sharedMemory(e *api.NeonEndpoint) corev1.VolumeSource {
	v := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	if m, ok := e.Spec.Resources.Limits[corev1.ResourceMemory]; ok {
		v.SizeLimit = resource.NewQuantity(m.Value()/2, resource.BinarySI)
	}
	return corev1.VolumeSource{EmptyDir: v}
}

// spread keeps the computes of a branch on different nodes, and in different zones, where that can
// be: a replica is of use if its primary's node is lost.
func spread(timeline string) *corev1.Affinity {
	others := &metav1.LabelSelector{MatchLabels: map[string]string{
		timelineLabel: timeline, "app.kubernetes.io/component": "compute",
	}}
	term := func(weight int32, key string) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{
			Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: others, TopologyKey: key},
		}
	}
	return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			term(100, corev1.LabelHostname), term(50, corev1.LabelTopologyZone),
		},
	}}
}

// started is the probe that keeps clients from a compute until its roles and databases are there.
// PostgreSQL accepts connections before. compute_ctl knows it too, but answers only those who have a
// token, and probes have none; connections from within the pod need no password. The probe fails
// for as long as a start takes: compute_ctl ends by itself if it cannot start.
func started(e *api.NeonEndpoint) *corev1.Probe {
	query := "select 1"
	if e.Spec.Type == api.ReadWrite { // a compute that reads has the content of its branch
		query = contentThere(configDir + "/" + configFile)
	}
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{
			"/usr/local/bin/psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", query,
			fmt.Sprintf("host=localhost port=%d user=cloud_admin dbname=postgres connect_timeout=2", postgresPort),
		}}},
		PeriodSeconds: 1, TimeoutSeconds: 5, FailureThreshold: 1 << 20,
	}
}

// contentThere is a statement that fails until PostgreSQL has the roles and databases of a
// configuration's file.
func contentThere(file string) string {
	return `with wanted as (select pg_read_file('` + strings.ReplaceAll(file, "'", "''") + `')::jsonb->'spec'->'cluster' as of)
select 1 / (case when exists (
	select from wanted, jsonb_array_elements(of->'roles') r where r->>'name' not in (select rolname from pg_roles)
) or exists (
	select from wanted, jsonb_array_elements(of->'databases') d where d->>'name' not in (select datname from pg_database)
) then 0 else 1 end)`
}
