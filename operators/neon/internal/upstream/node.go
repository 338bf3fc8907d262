package upstream

import (
	"context"
	"fmt"
	"net/http"

	"github.com/pintle-go/pintle/operators/neon/internal/token"
)

// Node is a pageserver as the storage controller knows it.
type Node struct {
	ID           int64            `json:"id"`
	Availability NodeAvailability `json:"availability"`
	Scheduling   NodeScheduling   `json:"scheduling"`
	Zone         string           `json:"availability_zone_id"`
	HTTPHost     string           `json:"listen_http_addr"`
	HTTPPort     int              `json:"listen_http_port"`
	HTTPSPort    *int             `json:"listen_https_port"`
	PGHost       string           `json:"listen_pg_addr"`
	PGPort       int              `json:"listen_pg_port"`
}

// NodeAvailability says whether a pageserver answers.
type NodeAvailability string

const (
	NodeActive NodeAvailability = "Active"
	// NodeWarmingUp has started and loads its tenants.
	NodeWarmingUp NodeAvailability = "WarmingUp"
	// NodeOffline has not answered for 30 s, unless the storage controller is told otherwise.
	NodeOffline NodeAvailability = "Offline"
)

// NodeScheduling says how the storage controller treats a pageserver.
type NodeScheduling string

const (
	ScheduleActive          NodeScheduling = "Active"
	ScheduleFilling         NodeScheduling = "Filling"
	SchedulePause           NodeScheduling = "Pause"
	SchedulePauseForRestart NodeScheduling = "PauseForRestart"
	ScheduleDraining        NodeScheduling = "Draining"
	ScheduleDeleting        NodeScheduling = "Deleting"
)

// NodeRegistration announces a pageserver. Pageservers announce themselves with their
// metadata.json.
type NodeRegistration struct {
	ID        int64  `json:"node_id"`
	PGHost    string `json:"listen_pg_addr"`
	PGPort    int    `json:"listen_pg_port"`
	HTTPHost  string `json:"listen_http_addr"`
	HTTPPort  int    `json:"listen_http_port"`
	HTTPSPort *int   `json:"listen_https_port,omitempty"`
	Zone      string `json:"availability_zone_id"`
}

// Nodes returns all pageservers that are registered.
func (c *Controller) Nodes(ctx context.Context) ([]Node, error) {
	var nodes []Node
	err := c.call(ctx, request{http.MethodGet, "/control/v1/node", scope(token.Infra), nil}, &nodes)
	return nodes, err
}

// Node returns a pageserver. The error is [IsNotFound] when it is not registered.
func (c *Controller) Node(ctx context.Context, id int64) (Node, error) {
	var node Node
	err := c.call(ctx, request{http.MethodGet, nodePath(id, ""), scope(token.Infra), nil}, &node)
	return node, err
}

// RegisterNode registers a pageserver. A repeat is no error. Another address is one (409), as
// is a host that has no address (503).
func (c *Controller) RegisterNode(ctx context.Context, n NodeRegistration) error {
	return c.call(ctx, request{http.MethodPost, "/control/v1/node", scope(token.Infra), n}, nil)
}

// ConfigureNode sets the scheduling of a pageserver.
func (c *Controller) ConfigureNode(ctx context.Context, id int64, s NodeScheduling) error {
	body := struct {
		ID         int64          `json:"node_id"`
		Scheduling NodeScheduling `json:"scheduling"`
	}{id, s}
	return c.call(ctx, request{http.MethodPut, nodePath(id, "/config"), scope(token.Admin), body}, nil)
}

// DrainNode begins to move the shards of a pageserver to others that hold a secondary. The
// pageserver is done when its scheduling is PauseForRestart, and has given up when it is Active
// again.
func (c *Controller) DrainNode(ctx context.Context, id int64) error {
	return c.call(ctx, request{http.MethodPut, nodePath(id, "/drain"), scope(token.Infra), nil}, nil)
}

// CancelDrain ends [Controller.DrainNode]. It is an error (412) if none is under way.
func (c *Controller) CancelDrain(ctx context.Context, id int64) error {
	return c.call(ctx, request{http.MethodDelete, nodePath(id, "/drain"), scope(token.Infra), nil}, nil)
}

// FillNode begins to move shards to a pageserver. It is an error while the pageserver warms up
// (503), and when there is no other (412).
func (c *Controller) FillNode(ctx context.Context, id int64) error {
	return c.call(ctx, request{http.MethodPut, nodePath(id, "/fill"), scope(token.Infra), nil}, nil)
}

// CancelFill ends [Controller.FillNode]. It is an error (412) if none is under way.
func (c *Controller) CancelFill(ctx context.Context, id int64) error {
	return c.call(ctx, request{http.MethodDelete, nodePath(id, "/fill"), scope(token.Infra), nil}, nil)
}

// DeleteNode begins to move all off a pageserver and then to forget it: [Controller.Node]
// is not found at the end. Its ID stays taken until [Controller.DeleteTombstone]. Call it only
// while the pageserver answers, or after it is Offline; else the storage controller can panic. It is an
// error (409) while a deletion is under way.
func (c *Controller) DeleteNode(ctx context.Context, id int64) error {
	return c.call(ctx, request{http.MethodPut, nodePath(id, "/delete"), scope(token.Admin), nil}, nil)
}

// ForceDeleteNode is [Controller.DeleteNode] without a wait for the shards.
func (c *Controller) ForceDeleteNode(ctx context.Context, id int64) error {
	return c.call(ctx, request{http.MethodPut, nodePath(id, "/delete?force=true"), scope(token.Admin), nil}, nil)
}

// CancelDeleteNode ends [Controller.DeleteNode].
func (c *Controller) CancelDeleteNode(ctx context.Context, id int64) error {
	return c.call(ctx, request{http.MethodDelete, nodePath(id, "/delete"), scope(token.Admin), nil}, nil)
}

// NodeShard is a shard on a pageserver. Shards that are neither intended to be attached nor
// secondary are on their way off.
type NodeShard struct {
	Shard string `json:"tenant_shard_id"`
	// ObservedSecondary and IntendedSecondary are nil where the pageserver does not hold the
	// shard, or shall not hold it.
	ObservedSecondary *bool `json:"is_observed_secondary"`
	IntendedSecondary *bool `json:"is_intended_secondary"`
}

// NodeShards returns the shards of a pageserver.
func (c *Controller) NodeShards(ctx context.Context, id int64) ([]NodeShard, error) {
	var answer struct {
		Shards []NodeShard `json:"shards"`
	}
	err := c.call(ctx, request{http.MethodGet, nodePath(id, "/shards"), scope(token.Admin), nil}, &answer)
	return answer.Shards, err
}

// Tombstones returns the pageservers that were deleted and whose IDs are still taken.
func (c *Controller) Tombstones(ctx context.Context) ([]Node, error) {
	var nodes []Node
	err := c.call(ctx, request{http.MethodGet, "/debug/v1/tombstone", scope(token.Admin), nil}, &nodes)
	return nodes, err
}

// DeleteTombstone frees the ID of a pageserver that was deleted.
func (c *Controller) DeleteTombstone(ctx context.Context, id int64) error {
	path := fmt.Sprintf("/debug/v1/tombstone/%d", id)
	return c.call(ctx, request{http.MethodDelete, path, scope(token.Admin), nil}, nil)
}

func nodePath(id int64, rest string) string { return fmt.Sprintf("/control/v1/node/%d%s", id, rest) }
