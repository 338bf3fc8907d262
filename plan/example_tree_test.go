package plan_test

import (
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pintle-go/pintle/plan"
)

// A command shows the plan of an owner, whose status it has read. The states have colours on
// a terminal, and none in a file.
func ExampleTree() {
	now := time.Date(2026, time.May, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) metav1.Time { return metav1.NewTime(now.Add(-d)) }
	status := &plan.Status{Nodes: []plan.NodeStatus{
		{Name: "secret", State: plan.Ready, Since: ago(2 * time.Hour)},
		{
			Name: "database", State: plan.Degraded, Since: ago(7 * time.Minute), Needs: []string{"secret"},
			Message: "not ready for 5m0s: 0 of 1 replicas are available",
		},
		{
			Name: "app", State: plan.Blocked, Since: ago(7 * time.Minute), Needs: []string{"database"},
			Message: "waits for database",
		},
		{Name: "cache", State: plan.Deleting, Since: ago(30 * time.Second)},
	}}
	info, err := os.Stdout.Stat()
	tree := plan.Tree{Width: 60, Color: err == nil && info.Mode()&os.ModeCharDevice != 0}
	for _, line := range tree.Lines(status, now) {
		fmt.Println(line)
	}
	if status.State() == plan.Degraded {
		fmt.Println("somebody has to look at it")
	}
	// Output:
	// ✓ secret       Ready 120m
	// └─ ! database  Degraded 7m: not ready for 5m0s: 0 of 1 repl…
	//    └─ · app    Blocked 7m: waits for database
	// − cache        Deleting 30s
	// somebody has to look at it
}
