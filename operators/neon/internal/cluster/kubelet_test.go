package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubelet runs the programs of the pods that are there.
func (w *world) kubelet() {
	w.Helper()
	if w.issuer != nil {
		w.issuer.issue(w)
	}
	here, pods := map[string]types.UID{}, map[string]*corev1.Pod{}
	for pod, err := range w.pods.Cached().All(w.Context()) {
		w.ok(err)
		name := pod.Labels[componentLabel]
		if id := pod.Labels[idLabel]; id != "" {
			name += "-" + id
		}
		if pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && name != "broker" {
			here[name], pods[name] = pod.UID, pod
		}
	}
	for name, uid := range w.runs {
		if here[name] != uid {
			w.end(name)
		}
	}
	if len(w.runs) == 0 && len(here) > 0 {
		s, err := w.secrets.Get(w.Context(), KeysName("main"))
		w.ok(err)
		key, err := ParseKeys(s)
		w.ok(err)
		w.lab.Trust(w.T, key)
		w.known(ControllerHost("main", w.ns), ControllerPort, "controller")
	}
	for name, uid := range here {
		if certified(pods[name]) && !w.mount(name, uid) {
			continue
		}
		waits := name == "controller" && !w.lab.Postgres.Runs() // it would end, and be started again
		if w.runs[name] == "" && !w.away[name] && !waits {
			w.modes[name] = w.mode(name, pods[name])
			w.begin(name, uid)
		}
	}
}

func (w *world) end(name string) {
	w.Helper()
	w.Logf("pod %s of %s ends", w.runs[name], name)
	w.lab.Stop(w.T, name)
	delete(w.runs, name)
}

func (w *world) begin(name string, uid types.UID) {
	w.Helper()
	w.Logf("pod %s of %s begins", uid, name)
	component, number, _ := strings.Cut(name, "-")
	id := 0
	if number != "" {
		_, err := fmt.Sscan(number, &id)
		w.ok(err)
	}
	switch component {
	case "controller":
		w.servedBy(ControllerHost("main", w.ns), ControllerPort, name)
		w.lab.StartController(w.T)
		w.controllers = append(w.controllers, w.lab.Controller)
	case "safekeeper":
		w.servedBy(SafekeeperHost("main", w.ns, int64(id)), SafekeeperHTTPPort, name)
		w.known(SafekeeperHost("main", w.ns, int64(id)), SafekeeperPort, name+"-pg")
		w.lab.StartSafekeeper(w.T, id)
	case "pageserver":
		w.servedBy(PageserverHost("main", w.ns, int64(id)), PageserverHTTPPort, name)
		w.known(PageserverHost("main", w.ns, int64(id)), PageserverPort, name+"-pg")
		w.lab.StartPageserver(w.T, id)
	}
	w.runs[name] = uid
}

// crash ends a program until back is called. Its pod stays.
func (w *world) crash(name string) (back func()) {
	w.Helper()
	w.away[name] = true
	w.end(name)
	return func() { delete(w.away, name) }
}
