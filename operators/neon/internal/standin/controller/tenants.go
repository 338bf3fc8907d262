package controller

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pintle-go/pintle/operators/neon/internal/standin/wire"
	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// configFields are the names of a tenant's configuration.
var configFields = strings.Fields(`
	checkpoint_distance checkpoint_timeout compaction_target_size compaction_period compaction_threshold
	compaction_upper_limit compaction_algorithm compaction_shard_ancestor compaction_l0_first compaction_l0_semaphore
	l0_flush_delay_threshold l0_flush_stall_threshold gc_horizon gc_period image_creation_threshold
	image_layer_force_creation_period pitr_interval walreceiver_connect_timeout lagging_wal_timeout max_lsn_wal_lag
	eviction_policy min_resident_size_override evictions_low_residence_duration_metric_threshold heatmap_period
	lazy_slru_download timeline_get_throttle image_layer_creation_check_threshold image_creation_preempt_threshold
	lsn_lease_length lsn_lease_length_for_ts timeline_offloading rel_size_v2_enabled gc_compaction_enabled
	gc_compaction_verification gc_compaction_initial_threshold_kb gc_compaction_ratio_percent sampling_ratio
	relsize_snapshot_cache_capacity basebackup_cache_enabled`)

// duration matches one part of a duration in the words of Rust's humantime.
var duration = regexp.MustCompile(`^(\d+)\s*([a-z]+)\s*`)

// plain writes a duration as the real program does: "7 days" as "7days".
func plain(value any) any {
	text, ok := value.(string)
	if !ok {
		return value
	}
	var parts []string
	for rest := text; rest != ""; {
		match := duration.FindStringSubmatch(rest)
		if match == nil {
			return value
		}
		parts = append(parts, match[1]+match[2])
		rest = rest[len(match[0]):]
	}
	return strings.Join(parts, " ")
}

// decodeConfig takes a flat configuration out of a request, and leaves the given other fields.
func decodeConfig(r *http.Request, others ...string) (map[string]any, map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := wire.Decode(r, &all); err != nil {
		return nil, nil, err
	}
	config := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(others, name) {
			continue
		}
		if !slices.Contains(configFields, name) {
			return nil, nil, wire.BadRequest("Failed to parse json request: unknown field `%s` at line 1 column %d",
				name, r.ContentLength)
		}
		var value any
		if err := json.Unmarshal(all[name], &value); err != nil {
			return nil, nil, wire.BadRequest("Failed to parse json request: %v", err)
		}
		config[name] = plain(value)
	}
	return config, all, nil
}

func field(all map[string]json.RawMessage, name string, into any) error {
	if all[name] == nil {
		return nil
	}
	if err := json.Unmarshal(all[name], into); err != nil {
		return wire.BadRequest("Failed to parse json request: %s: %v", name, err)
	}
	return nil
}

const defaultStripe = 2048

func shardID(tenant string, number, count int) string {
	if count == 0 {
		return tenant
	}
	return fmt.Sprintf("%s-%02x%02x", tenant, number, count)
}

// createTenant makes a tenant. A repeat changes nothing. Its first answer has generation 0,
// though the shards get another at once.
func (c *Controller) createTenant(r *http.Request) (wire.Answer, error) {
	config, all, err := decodeConfig(r, "new_tenant_id", "generation", "shard_parameters", "placement_policy")
	if err != nil {
		return wire.Answer{}, err
	}
	var id string
	var parameters struct {
		Count      int `json:"count"`
		StripeSize int `json:"stripe_size"`
	}
	placement := upstream.Attached(0)
	for name, into := range map[string]any{"new_tenant_id": &id, "shard_parameters": &parameters, "placement_policy": &placement} {
		if err := field(all, name, into); err != nil {
			return wire.Answer{}, err
		}
	}
	if err := wire.CheckID(id); err != nil {
		return wire.Answer{}, err
	}
	if parameters.Count > 0 && parameters.StripeSize == 0 {
		return wire.Answer{}, wire.Errorf(http.StatusBadRequest, "JSON parse: shard_parameters: missing field `stripe_size`")
	}
	c.mu.Lock()
	t, known := c.tenants[id]
	if !known {
		t = &tenant{ID: id, Count: parameters.Count, StripeSize: defaultStripe, Placement: placement, Config: config, Zone: c.pickZone()}
		if parameters.StripeSize > 0 {
			t.StripeSize = parameters.StripeSize
		}
		for number := range max(1, parameters.Count) {
			s := &shard{ID: shardID(id, number, parameters.Count), Secondary: []int64{}, observed: map[int64]string{}}
			t.Shards = append(t.Shards, s)
			if err := c.schedule(t, s); err != nil {
				c.mu.Unlock()
				return wire.Answer{}, err
			}
		}
	}
	answer := createdShards(t)
	c.mu.Unlock()
	if known {
		return answer, nil
	}
	if err := c.saveTenant(r.Context(), t); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	c.tenants[id] = t
	c.mu.Unlock()
	if err := c.reconcileFor(r, t); err != nil {
		c.Log.Warn("reconcile", "tenant", id, "error", err)
	}
	return answer, nil
}

func createdShards(t *tenant) wire.Answer {
	shards := []map[string]any{}
	for _, s := range t.Shards {
		shards = append(shards, map[string]any{"shard_id": s.ID, "node_id": s.Attached, "generation": s.Generation})
	}
	answer := frozen(map[string]any{"shards": shards})
	answer.Status = http.StatusCreated
	return answer
}

func (c *Controller) find(r *http.Request) (*tenant, error) {
	id := r.PathValue("tenant")
	if t := c.tenants[id]; t != nil {
		return t, nil
	}
	return nil, wire.NotFound("Tenant %s not found", id)
}

func describe(t *tenant) map[string]any {
	shards := []map[string]any{}
	for _, s := range t.Shards {
		shards = append(shards, map[string]any{
			"tenant_shard_id": s.ID, "node_attached": s.Attached, "node_secondary": s.Secondary, "last_error": s.lastError,
			"is_reconciling": false, "is_pending_compute_notification": s.pending, "is_splitting": false, "is_importing": false,
			"scheduling_policy": "Active", "preferred_az_id": t.Zone,
		})
	}
	return map[string]any{
		"tenant_id": t.ID, "shards": shards, "stripe_size": t.StripeSize, "policy": t.Placement, "config": t.Config,
	}
}

func (c *Controller) describeTenant(r *http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	return frozen(describe(t)), nil
}

// listTenants answers with the tenants in order, those after start_after and at most limit.
func (c *Controller) listTenants(r *http.Request) (wire.Answer, error) {
	limit, after := math.MaxInt, r.URL.Query().Get("start_after")
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			return wire.Answer{}, wire.BadRequest("cannot parse query param limit: %s", text)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	list := []map[string]any{}
	for _, id := range slices.Sorted(maps.Keys(c.tenants)) {
		if id > after && len(list) < limit {
			list = append(list, describe(c.tenants[id]))
		}
	}
	return frozen(list), nil
}

func (c *Controller) getConfig(r *http.Request) (wire.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, err := c.find(r)
	if err != nil {
		return wire.Answer{}, err
	}
	return frozen(map[string]any{"tenant_specific_overrides": t.Config, "effective_config": t.Config}), nil
}

func (c *Controller) patchConfig(r *http.Request) (wire.Answer, error) {
	return c.changeConfig(r, true)
}
func (c *Controller) putConfig(r *http.Request) (wire.Answer, error) { return c.changeConfig(r, false) }

func (c *Controller) changeConfig(r *http.Request, keep bool) (wire.Answer, error) {
	config, all, err := decodeConfig(r, "tenant_id")
	if err != nil {
		return wire.Answer{}, err
	}
	var id string
	if err := field(all, "tenant_id", &id); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	t := c.tenants[id]
	if t == nil {
		c.mu.Unlock()
		return wire.Answer{}, wire.NotFound("Tenant %s not found", id)
	}
	changed := map[string]any{}
	if keep {
		changed = maps.Clone(t.Config)
	}
	for name, value := range config {
		if value == nil {
			delete(changed, name)
			continue
		}
		changed[name] = value
	}
	t.Config = changed
	c.mu.Unlock()
	return wire.OK(nil), c.saveTenant(r.Context(), t)
}

func (c *Controller) setPolicy(r *http.Request) (wire.Answer, error) {
	var body struct {
		Placement  *upstream.Placement `json:"placement"`
		Scheduling *string             `json:"scheduling"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	t, err := c.find(r)
	if err == nil && body.Placement != nil {
		t.Placement = *body.Placement
		for _, s := range t.Shards {
			if err = c.schedule(t, s); err != nil {
				break
			}
		}
	}
	c.mu.Unlock()
	if err != nil {
		return wire.Answer{}, err
	}
	if err := c.saveTenant(r.Context(), t); err != nil {
		return wire.Answer{}, err
	}
	if err := c.reconcileFor(r, t); err != nil {
		c.Log.Warn("reconcile", "tenant", t.ID, "error", err)
	}
	return wire.OK(nil), nil
}

func (c *Controller) migrateShard(r *http.Request) (wire.Answer, error) {
	var body struct {
		Node     int64 `json:"node_id"`
		Override *struct {
			Scheduler bool `json:"override_scheduler"`
		} `json:"migration_config"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	id := r.PathValue("shard")
	c.mu.Lock()
	var t *tenant
	var s *shard
	for _, candidate := range c.tenants {
		for _, known := range candidate.Shards {
			if known.ID == id {
				t, s = candidate, known
			}
		}
	}
	n := c.nodes[body.Node]
	var err error
	switch {
	case s == nil:
		err = wire.NotFound("Tenant shard %s not found", id)
	case n == nil:
		err = wire.BadRequest("Node %d not found", body.Node)
	case s.Attached != nil && *s.Attached == body.Node:
	case n.Zone != t.Zone && body.Override == nil:
		err = wire.Precondition("Migration to a worse-scoring node")
	case !n.usable():
		err = wire.Precondition("Node %d is not available", body.Node)
	default:
		c.move(t, s, body.Node)
	}
	c.mu.Unlock()
	if err != nil {
		return wire.Answer{}, err
	}
	if err := c.saveTenant(r.Context(), t); err != nil {
		return wire.Answer{}, err
	}
	return wire.OK(map[string]any{}), c.reconcileFor(r, t)
}

// split makes more shards of each shard, where the shard is.
func (c *Controller) split(r *http.Request) (wire.Answer, error) {
	var body struct {
		Count      int  `json:"new_shard_count"`
		StripeSize *int `json:"new_stripe_size"`
	}
	if err := wire.Decode(r, &body); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	t, err := c.find(r)
	if err == nil && (bits.OnesCount(uint(body.Count)) != 1 || body.Count < max(1, t.Count)) {
		err = wire.BadRequest("new_shard_count %d is not a power of two that is at least %d", body.Count, max(1, t.Count))
	}
	if err != nil {
		c.mu.Unlock()
		return wire.Answer{}, err
	}
	old := t.Shards
	names := []string{}
	if body.Count == t.Count {
		for _, s := range old {
			names = append(names, s.ID)
		}
		c.mu.Unlock()
		return wire.OK(map[string]any{"new_shards": names}), nil
	}
	t.Count, t.Shards = body.Count, nil
	for number := range body.Count {
		parent := old[number%len(old)]
		child := &shard{
			ID: shardID(t.ID, number, body.Count), Attached: parent.Attached, Secondary: slices.Clone(parent.Secondary),
			Generation: parent.Generation, SplitFrom: parent.ID, observed: map[int64]string{},
		}
		t.Shards = append(t.Shards, child)
		names = append(names, child.ID)
	}
	c.mu.Unlock()
	if err := c.saveTenant(r.Context(), t); err != nil {
		return wire.Answer{}, err
	}
	if err := c.reconcileFor(r, t); err != nil {
		return wire.Answer{}, err
	}
	for _, parent := range old {
		c.forgetShard(r, t, parent, true)
	}
	return wire.OK(map[string]any{"new_shards": names}), nil
}

// forgetShard removes a shard from all pageservers, and its objects if erase is set.
func (c *Controller) forgetShard(r *http.Request, t *tenant, s *shard, erase bool) {
	c.mu.Lock()
	var on []*node
	for id := range s.observed {
		if n := c.nodes[id]; n != nil {
			on = append(on, n)
		}
	}
	attachedTo := s.Attached
	c.mu.Unlock()
	for _, n := range on {
		if erase && attachedTo != nil && *attachedTo == n.ID {
			if err := c.onPageserver(r.Context(), place{s.ID, n}, http.MethodDelete, "", nil, nil); err != nil {
				c.Log.Warn("delete shard", "shard", s.ID, "error", err)
			}
			continue
		}
		if err := c.locateOn(r.Context(), t, s, n, ""); err != nil {
			c.Log.Warn("detach shard", "shard", s.ID, "error", err)
		}
	}
}

// deleteTenant deletes a tenant everywhere. It is no error if there is none.
func (c *Controller) deleteTenant(r *http.Request) (wire.Answer, error) {
	c.mu.Lock()
	t, err := c.find(r)
	var timelines []*timeline
	for _, known := range c.timelines {
		if err == nil && known.Tenant == t.ID {
			timelines = append(timelines, known)
		}
	}
	c.mu.Unlock()
	if err != nil {
		return wire.OK(nil), nil // the real program answers 200 too
	}
	t.work.Lock()
	defer t.work.Unlock()
	for _, s := range t.Shards {
		c.forgetShard(r, t, s, true)
	}
	for _, known := range timelines {
		if err := c.deleteOnKeepers(r.Context(), t.ID, known.ID); err != nil {
			return wire.Answer{}, err
		}
	}
	// The record goes first: that of a tenant which is made again with the id would go with it.
	if err := c.store.remove(r.Context(), "tenants", t.ID); err != nil {
		return wire.Answer{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.tenants, t.ID)
	delete(c.notified, t.ID)
	return wire.OK(nil), nil
}
