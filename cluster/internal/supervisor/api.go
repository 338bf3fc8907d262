package supervisor

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
)

// A prober sends requests to the components: health checks to all of them, requests of the
// administrator to the API server, and requests of a client to etcd.
type prober struct {
	plane  *controlplane.Plane
	health *http.Client
	admin  *http.Client
}

func newProber(plane *controlplane.Plane) (*prober, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(plane.CA.PEM())
	pool.AppendCertsFromPEM(plane.Etcd.PEM())
	pair := plane.EtcdClient()
	etcdClient, err := tls.LoadX509KeyPair(pair.CertFile, pair.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("load etcd client certificate: %w", err)
	}
	config, err := AdminConfig(plane.Dir.Kubeconfig())
	if err != nil {
		return nil, err
	}
	config.Timeout = 10 * time.Second
	// With HTTP/2, close would leave the connection of a request that was just given up.
	config.NextProtos = []string{"http/1.1"}
	admin, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client of the API server: %w", err)
	}
	return &prober{
		plane: plane,
		admin: admin,
		health: &http.Client{
			Timeout: 5 * time.Second,
			// Only etcd asks for a certificate of its authority. Other components do not
			// get this certificate, because they ask for certificates of other
			// authorities.
			Transport: &http.Transport{
				TLSClientConfig:   &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{etcdClient}},
				DisableKeepAlives: true,
			},
		},
	}, nil
}

// close closes the idle connections.
func (p *prober) close() { utilnet.CloseIdleConnectionsFor(p.admin.Transport) }

// check returns nil if the URL answers 200.
func (p *prober) check(ctx context.Context, url string) error {
	_, err := p.send(ctx, p.health, http.MethodGet, url, nil)
	return err
}

// bootstrap creates the objects that kubeadm would create, and waits for the objects that
// every client expects.
func (p *prober) bootstrap(ctx context.Context, controllers bool) error {
	const path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
	binding := map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1",
		"kind":       "ClusterRoleBinding",
		"metadata":   map[string]any{"name": "pintle:kubelet-api"},
		"roleRef": map[string]any{
			"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:kubelet-api-admin",
		},
		"subjects": []any{
			map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": controlplane.KubeletClient},
		},
	}
	if err := p.create(ctx, p.plane.Server()+path, binding); err != nil {
		return fmt.Errorf("grant the API server access to kubelets: %w", err)
	}
	if !controllers {
		return nil
	}
	// Without it the API server would refuse the first pods if a user creates them at
	// once.
	account := p.plane.Server() + "/api/v1/namespaces/default/serviceaccounts/default"
	for {
		_, err := p.send(ctx, p.admin, http.MethodGet, account, nil)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the default service account: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// create creates an object, which may already exist. It retries while the server does not
// answer, or answers with errors, as a server that has just started may.
func (p *prober) create(ctx context.Context, url string, object any) error {
	for {
		_, err := p.send(ctx, p.admin, http.MethodPost, url, object)
		var status *statusError
		answered := errors.As(err, &status)
		switch {
		case err == nil, answered && status.code == http.StatusConflict:
			return nil
		case answered && status.code < http.StatusInternalServerError && status.code != http.StatusTooManyRequests:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// revision returns the newest revision of etcd.
func (p *prober) revision(ctx context.Context) (int64, error) {
	var status struct {
		Header struct {
			Revision string `json:"revision"`
		} `json:"header"`
	}
	data, err := p.send(ctx, p.health, http.MethodPost, p.plane.EtcdURL()+"/v3/maintenance/status", map[string]any{})
	if err == nil {
		err = json.Unmarshal(data, &status)
	}
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	revision, err := strconv.ParseInt(status.Header.Revision, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read etcd's revision: %w", err)
	}
	return revision, nil
}

// compact removes all revisions of etcd except the newest.
func (p *prober) compact(ctx context.Context) error {
	revision, err := p.revision(ctx)
	if err != nil {
		return err
	}
	request := map[string]any{"revision": revision, "physical": true}
	if _, err := p.send(ctx, p.health, http.MethodPost, p.plane.EtcdURL()+"/v3/kv/compaction", request); err != nil {
		return fmt.Errorf("compact etcd at revision %d: %w", revision, err)
	}
	return nil
}

type statusError struct {
	code int
	body string
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP status %d: %s", e.code, e.body) }

func (p *prober) send(ctx context.Context, client *http.Client, method, url string, body any) ([]byte, error) {
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return nil, &statusError{code: response.StatusCode, body: string(data)}
	}
	return data, nil
}
