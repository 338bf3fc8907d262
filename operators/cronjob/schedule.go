package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"

	v2 "github.com/pintle-go/pintle/operators/cronjob/api/v2"
)

// parse returns the times of a schedule.
func parse(s v2.Schedule) (cron.Schedule, error) {
	times, err := cron.ParseStandard(expression(s))
	if err != nil {
		return nil, fmt.Errorf("parse schedule: %w", err)
	}
	return times, nil
}

// expression returns the five fields of a schedule as cron has them.
func expression(s v2.Schedule) string {
	each := func(field string) string { return cmp.Or(field, "*") }
	return each(s.Minute) + " " + each(s.Hour) + " " + each(s.DayOfMonth) + " " + each(s.Month) + " " + each(s.DayOfWeek)
}

// situation has the facts on which the decision about a CronJob depends.
type situation struct {
	spec v2.Spec
	// after is the latest time for which a Job was started, or that of the creation.
	after time.Time
	// active is the number of Jobs that run.
	active int
	now    time.Time
}

// decision has the next steps for a CronJob.
type decision struct {
	// start is the time for which a Job is to be started now. It is zero if none is to be.
	start time.Time
	// replaces is true if the Jobs that run are to be deleted before.
	replaces bool
	// missed is a time for which no Job starts any more, because its deadline has passed.
	missed time.Time
	// waits is a time for which a Job starts when those that run have ended.
	waits time.Time
	// next is the next time of the schedule. It is zero if there is none.
	next time.Time
}

// decide returns the next steps. If several times have passed without a Job, as after an
// outage, only the latest of them counts.
func decide(times cron.Schedule, s situation) decision {
	if s.spec.Suspend {
		return decision{}
	}
	d := decision{next: times.Next(s.now)}
	due := latest(times, s.after, s.now)
	deadline := s.spec.StartingDeadlineSeconds
	switch {
	case due.IsZero():
	case deadline != nil && s.now.Sub(due) > time.Duration(*deadline)*time.Second:
		d.missed = due
	case s.active > 0 && s.spec.ConcurrencyPolicy == v2.Forbid:
		d.waits = due
	default:
		d.start, d.replaces = due, s.active > 0 && s.spec.ConcurrencyPolicy == v2.Replace
	}
	return d
}

// latest returns the latest time of a schedule that is later than after and not later than now, or
// zero. It looks back in steps that double, so that a schedule of each minute that was suspended
// for a year costs no more than one that was suspended for an hour.
func latest(times cron.Schedule, after, now time.Time) (found time.Time) {
	for back := time.Hour; ; back *= 2 {
		from := now.Add(-back)
		if from.Before(after) {
			from = after
		}
		for t := times.Next(from); !t.IsZero() && !t.After(now); t = times.Next(t) {
			found = t
		}
		if !found.IsZero() || !from.After(after) {
			return found
		}
	}
}
