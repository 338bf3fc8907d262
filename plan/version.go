package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/kube"
)

// otherVersions returns the versions that the server serves of a group, without one. A kind that
// is not served in its recorded version may be served in another one.
func otherVersions(ctx context.Context, client *kube.Client, without kube.GVK) (all []string, err error) {
	var group metav1.APIGroup
	if err := groupOf(ctx, client.Config().Rest, without.Group, &group); err != nil {
		return nil, fmt.Errorf("discover the versions of %s: %w", without.GroupKind(), err)
	}
	for _, v := range group.Versions {
		if v.Version != without.Version {
			all = append(all, v.GroupVersion)
		}
	}
	return all, nil
}

// groupOf asks the server for a group. A group that is not served has no versions.
func groupOf(ctx context.Context, config *rest.Config, name string, group *metav1.APIGroup) error {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return err
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("apis", name).String(), http.NoBody)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return json.NewDecoder(answer.Body).Decode(group)
	case http.StatusNotFound:
		return nil
	}
	return fmt.Errorf("the server answers %s", answer.Status)
}
