package realnode

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"text/template"

	"github.com/pintle-go/pintle/cluster/internal/controlplane"
)

// A manifest is an object and its path on the API server.
type manifest struct {
	path string
	yaml string
}

var dnsTemplate = template.Must(template.New("dns").Parse(`/api/v1/namespaces/kube-system/serviceaccounts/coredns
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns, namespace: kube-system}
---
/apis/rbac.authorization.k8s.io/v1/clusterroles/system:coredns
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "system:coredns"}
rules:
- {apiGroups: [""], resources: [endpoints, services, pods, namespaces], verbs: [list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [list, watch]}
---
/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:coredns
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "system:coredns"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects:
- {kind: ServiceAccount, name: coredns, namespace: kube-system}
---
/api/v1/namespaces/kube-system/configmaps/coredns
apiVersion: v1
kind: ConfigMap
metadata: {name: coredns, namespace: kube-system}
data:
  Corefile: |
    .:1053 {
        errors
        health :8080
        ready :8181
        kubernetes {{.Domain}} in-addr.arpa ip6.arpa {
            pods insecure
            fallthrough in-addr.arpa ip6.arpa
        }
        {{- if .Upstream}}
        forward . {{.Upstream}}
        cache 30
        loop
        {{- end}}
    }
---
/api/v1/namespaces/kube-system/services/kube-dns
apiVersion: v1
kind: Service
metadata:
  name: kube-dns
  namespace: kube-system
  labels: {k8s-app: kube-dns, kubernetes.io/name: CoreDNS}
spec:
  clusterIP: {{.Address}}
  selector: {k8s-app: kube-dns}
  ports:
  - {name: dns, port: 53, protocol: UDP, targetPort: 1053}
  - {name: dns-tcp, port: 53, protocol: TCP, targetPort: 1053}
---
/apis/apps/v1/namespaces/kube-system/deployments/coredns
apiVersion: apps/v1
kind: Deployment
metadata:
  name: coredns
  namespace: kube-system
  labels: {k8s-app: kube-dns}
spec:
  replicas: 1
  selector:
    matchLabels: {k8s-app: kube-dns}
  template:
    metadata:
      labels: {k8s-app: kube-dns}
      annotations: {pintle.dev/corefile: {{printf "%q" .Upstream}}}
    spec:
      serviceAccountName: coredns
      priorityClassName: system-cluster-critical
      nodeSelector: {kubernetes.io/hostname: {{.Node}}}
      tolerations:
      - {operator: Exists}
      dnsPolicy: Default
      containers:
      - name: coredns
        image: {{.Image}}
        imagePullPolicy: Never
        args: [/etc/coredns/Corefile]
        ports:
        - {name: dns, containerPort: 1053, protocol: UDP}
        - {name: dns-tcp, containerPort: 1053, protocol: TCP}
        readinessProbe:
          httpGet: {path: /ready, port: 8181}
          periodSeconds: 1
        livenessProbe:
          httpGet: {path: /health, port: 8080}
          initialDelaySeconds: 30
          failureThreshold: 5
        resources:
          requests: {cpu: 50m, memory: 50Mi}
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
        volumeMounts:
        - {name: config, mountPath: /etc/coredns, readOnly: true}
      volumes:
      - name: config
        configMap: {name: coredns}
`))

// endpoints returns the manifests of the endpoints of the Service kubernetes.
func endpoints(apiServer netip.AddrPort) []manifest {
	return []manifest{{"/api/v1/namespaces/default/endpoints/kubernetes", fmt.Sprintf(`
apiVersion: v1
kind: Endpoints
metadata:
  name: kubernetes
  namespace: default
  labels: {endpointslice.kubernetes.io/skip-mirror: "true"}
subsets:
- addresses: [{ip: %s}]
  ports: [{name: https, port: %d, protocol: TCP}]
`, apiServer.Addr(), apiServer.Port())}, {"/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", fmt.Sprintf(`
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: kubernetes
  namespace: default
  labels: {kubernetes.io/service-name: kubernetes}
addressType: IPv4
endpoints:
- addresses: [%s]
  conditions: {ready: true}
ports:
- {name: https, port: %d, protocol: TCP}
`, apiServer.Addr(), apiServer.Port())}}
}

// dnsManifests returns the manifests of cluster DNS: CoreDNS in a pod of the node, and
// the Service for the pods' queries. Queries for other domains go to the upstream
// servers.
func dnsManifests(image string, address netip.Addr, upstream []netip.Addr) ([]manifest, error) {
	servers := make([]string, len(upstream))
	for i, u := range upstream {
		servers[i] = u.String()
	}
	var buf bytes.Buffer
	err := dnsTemplate.Execute(&buf, map[string]string{
		"Domain":   controlplane.Domain,
		"Upstream": strings.Join(servers, " "),
		"Address":  address.String(),
		"Image":    image,
		"Node":     Name,
	})
	if err != nil {
		return nil, fmt.Errorf("write manifests of DNS: %w", err)
	}
	var all []manifest
	for doc := range strings.SplitSeq(buf.String(), "---\n") {
		path, yaml, _ := strings.Cut(doc, "\n")
		all = append(all, manifest{path: path, yaml: yaml})
	}
	return all, nil
}
