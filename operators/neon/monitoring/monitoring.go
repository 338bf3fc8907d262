// Package monitoring has the objects by which Prometheus and Grafana watch Neon: monitors,
// alerts and a dashboard.
package monitoring

import (
	"bytes"
	_ "embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var (
	//go:embed dashboard.json
	dashboard []byte
	//go:embed rules.yaml
	rules []byte
	//go:embed podmonitor.yaml
	monitors []byte
)

// Objects returns the objects in a namespace, with labels. Those of the Prometheus operator
// need its definitions in the cluster. Grafana's sidecar finds the ConfigMap with the dashboard
// by its label grafana_dashboard.
func Objects(namespace string, labels map[string]string) ([]any, error) {
	about := metav1.ObjectMeta{Namespace: namespace, Name: "neon-dashboard", Labels: map[string]string{"grafana_dashboard": "1"}}
	for k, v := range labels {
		about.Labels[k] = v
	}
	all := []any{&corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: about,
		Data: map[string]string{"neon.json": string(dashboard)},
	}}
	for _, file := range [][]byte{monitors, rules} {
		for document := range bytes.SplitSeq(file, []byte("\n---\n")) {
			var o map[string]any
			if err := yaml.Unmarshal(document, &o); err != nil {
				return nil, fmt.Errorf("read monitors: %w", err)
			}
			meta, ok := o["metadata"].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("read monitors: %q has no metadata", document)
			}
			meta["namespace"], meta["labels"] = namespace, labels
			all = append(all, o)
		}
	}
	return all, nil
}
