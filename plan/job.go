package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// A Job that is complete may be deleted, by its ttlSecondsAfterFinished or by people. It would be run
// again, so the inventory records what it has done. A Job with another spec runs.

func (n *node) isJob() bool { return n.kind.Group == batchv1.GroupName && n.kind.Kind == "Job" }

// taskOf identifies what a Job is to do. When it is deleted afterwards does not matter, nor do fields
// without a value: a later release of the Go types may leave them out.
func taskOf(job any) (string, error) {
	var o struct {
		Spec map[string]any `json:"spec"`
	}
	raw, err := json.Marshal(job)
	if err == nil {
		err = json.Unmarshal(raw, &o)
	}
	if err == nil {
		delete(o.Spec, "ttlSecondsAfterFinished")
		prune(o.Spec)
		raw, err = json.Marshal(o.Spec)
	}
	if err != nil {
		return "", fmt.Errorf("read the Job: %w", err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// prune removes what has no value.
func prune(v any) (isEmpty bool) {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for key, value := range v {
			if prune(value) {
				delete(v, key)
			}
		}
		return len(v) == 0
	case []any:
		for _, value := range v {
			prune(value)
		}
	}
	return false
}

func isComplete(o any) bool {
	job, err := as[batchv1.Job](o)
	if err != nil {
		return false
	}
	for _, c := range job.Status.Conditions {
		if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
