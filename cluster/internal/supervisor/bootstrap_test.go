package supervisor

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// The first cluster of a binary keeps the roles that its API server makes, and the next
// one has the same. A cluster whose API server has further flags makes its own.
func TestBootstrap(t *testing.T) {
	dir := t.TempDir()
	roles := map[string]int{}
	for _, args := range [][]string{nil, nil, {"--v=1"}} {
		config := testConfig(t)
		binary := filepath.Join(dir, "kubernetes")
		if _, err := os.Lstat(binary); err != nil {
			if err := os.Symlink(config.Binary, binary); err != nil {
				t.Fatal(err)
			}
		}
		config.Binary, config.Settings.APIServerArgs = binary, args
		err := run(t, config, func(ctx context.Context, _ *Client) {
			roles[role(ctx, t, config)]++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(roles) != 2 {
		t.Errorf("the roles of three clusters: %v; want two that are the same", roles)
	}
}

// role returns the identity of a role that every API server makes.
func role(ctx context.Context, t *testing.T, config Config) string {
	t.Helper()
	admin, err := AdminConfig(config.Dir.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	admin.NextProtos = []string{"http/1.1"} // no connection of HTTP/2 is left
	client, err := rest.HTTPClientFor(admin)
	if err != nil {
		t.Fatal(err)
	}
	defer utilnet.CloseIdleConnectionsFor(client.Transport)
	url := admin.Host + "/apis/rbac.authorization.k8s.io/v1/clusterroles/cluster-admin"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var found struct{ Metadata struct{ UID string } }
	if err := json.NewDecoder(response.Body).Decode(&found); err != nil || found.Metadata.UID == "" {
		t.Fatalf("cluster-admin: %d, %v", response.StatusCode, err)
	}
	return found.Metadata.UID
}
