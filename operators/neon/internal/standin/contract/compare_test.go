package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/pintle-go/pintle/operators/neon/internal/upstream"
)

// loose are the fields whose values depend on the moment or on the build, each with the reason.
// Their types are compared, and null may stand for a value.
var loose = map[string]string{
	"walreceiver_status":               "text for people about the moment",
	"wal_source_connstr":               "the safekeeper that was faster",
	"last_received_msg_lsn":            "null until WAL has come",
	"last_received_msg_ts":             "the moment",
	"prev_record_lsn":                  "the stand-in does not read records",
	"remote_consistent_lsn":            "depends on when the pageserver uploads",
	"remote_consistent_lsn_visible":    "the same",
	"current_logical_size":             "bytes of another build of PostgreSQL",
	"current_logical_size_is_accurate": "false until it was calculated",
	"current_physical_size":            "bytes of another build of PostgreSQL",
	"pitr_history_size":                "the same",
	"directory_entries_counts":         "files of another build of PostgreSQL",
	"is_reconciling":                   "the moment",
	"valid_until":                      "the moment",
	"system_id":                        "initdb draws it",
	"term":                             "counts the starts of computes, which are not replayed here",
	"epoch":                            "the same",
	"term_history":                     "the same",
	"peers":                            "empty until the broker has told",
	"peer_horizon_lsn":                 "the moment",
	"backup_lsn":                       "depends on when the safekeeper uploads",
}

// looseAt are fields whose values are not compared in one call, by line, with the reason.
var looseAt = map[string]map[int]map[string]string{
	"calls.log": {
		203: {"generation": "counts attachments, and the real controller made more"},
	},
	"calls-2.log": {
		362: {"last_record_lsn": "the real pageserver had just loaded the timeline again and had no WAL yet"},
		570: {"safekeepers": "the set was picked while a script restarted safekeepers"},
		813: {"safekeepers": "their loads follow from the set that was picked at 570"},
		666: {"pg_version": "170008 comes from the compute, which is not replayed here"},
		843: {"pg_version": "the same"},
		845: {"pg_version": "the same"},
	},
}

// comparison compares a recorded answer with one of the stand-ins.
type comparison struct {
	translate
	loose map[string]string
	found []string
}

func (c *comparison) differ(path, format string, arguments ...any) {
	c.found = append(c.found, path+": "+fmt.Sprintf(format, arguments...))
}

func (c *comparison) values(path, field string, want, got any) {
	if c.loose[field] != "" {
		c.types(path, want, got)
		return
	}
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			c.differ(path, "want an object, got %v", got)
			return
		}
		c.objects(path, want, got)
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			c.differ(path, "want %v, got %v", want, got)
			return
		}
		for i := range want {
			c.values(fmt.Sprintf("%s[%d]", path, i), field, want[i], got[i])
		}
	default:
		if translated := c.value(want); translated != got {
			c.differ(path, "want %v, got %v", translated, got)
		}
	}
}

func (c *comparison) objects(path string, want, got map[string]any) {
	for _, field := range slices.Sorted(maps.Keys(want)) {
		value, ok := got[field]
		if !ok {
			c.differ(path+"."+field, "missing")
			continue
		}
		c.values(path+"."+field, field, want[field], value)
	}
	for _, field := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[field]; !ok {
			c.differ(path+"."+field, "the real program does not have it")
		}
	}
}

// types compares no values. The items of lists are compared with the first that was recorded.
func (c *comparison) types(path string, want, got any) {
	if want == nil || got == nil {
		return
	}
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		c.differ(path, "want a %T, got %v", want, got)
		return
	}
	switch want := want.(type) {
	case map[string]any:
		got := got.(map[string]any)
		if !slices.Equal(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))) {
			c.differ(path, "want the fields of %v, got %v", want, got)
			return
		}
		for field := range want {
			c.types(path+"."+field, want[field], got[field])
		}
	case []any:
		for i, item := range got.([]any) {
			if len(want) > 0 {
				c.types(fmt.Sprintf("%s[%d]", path, i), want[0], item)
			}
		}
	}
}

// translate turns recorded ports and places in the WAL into those of this run: initdb of
// another build ends elsewhere, and all places are counted from there.
type translate struct {
	ports map[int]int
	// initdb is where the recorded initdb ended, and shift is how much later it does here.
	initdb, shift upstream.LSN
}

var (
	lsnForm  = regexp.MustCompile(`\b[0-9A-F]{1,8}/[0-9A-F]{1,8}\b`)
	portForm = regexp.MustCompile(`127\.0\.0\.1:(\d+)`)
)

func (tr translate) text(text string) string {
	text = lsnForm.ReplaceAllStringFunc(text, func(found string) string {
		lsn, err := upstream.ParseLSN(found)
		if err != nil || lsn < tr.initdb {
			return found
		}
		return (lsn + tr.shift).String()
	})
	return portForm.ReplaceAllStringFunc(text, func(found string) string {
		port, err := strconv.Atoi(found[len("127.0.0.1:"):])
		if err != nil || tr.ports[port] == 0 {
			return found
		}
		return fmt.Sprintf("127.0.0.1:%d", tr.ports[port])
	})
}

func (tr translate) value(value any) any {
	switch value := value.(type) {
	case string:
		return tr.text(value)
	case float64:
		if port := tr.ports[int(value)]; port != 0 && value == float64(int(value)) {
			return float64(port)
		}
	case map[string]any:
		for field := range value {
			value[field] = tr.value(value[field])
		}
	case []any:
		for i := range value {
			value[i] = tr.value(value[i])
		}
	}
	return value
}

// json translates a text of JSON.
func (tr translate) json(text string) (string, error) {
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return "", err
	}
	translated, err := json.Marshal(tr.value(value))
	return string(translated), err
}
