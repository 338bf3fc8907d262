package controller

import (
	"cmp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetCondition puts a condition into a list, in the place of the one of its type, and
// returns whether that changed anything. The time of the last transition changes only
// with the status. The observed generation is that of o. SetCondition is like
// meta.SetStatusCondition of apimachinery, with a result that every API server accepts if
// the type is valid:
//   - The default reason is the type, because the API requires a reason. The default
//     status is Unknown.
//   - A character that is not allowed in a reason becomes an underscore. The prefix of
//     the type is left out of a default reason: the reason of example.com/Ready is Ready.
//   - Text that is too long is cut.
//   - A condition that was written without a time gets one, because the API requires it.
//
// For example:
//
//	controller.SetCondition(e, &e.Status.Conditions, metav1.Condition{
//		Type: "Ready", Status: metav1.ConditionFalse, Reason: "Scaling", Message: "2 of 3 servers are ready",
//	})
func SetCondition(o metav1.Object, conditions *[]metav1.Condition, c metav1.Condition) (changed bool) {
	c.ObservedGeneration = o.GetGeneration()
	c.Reason = reasonWord(cmp.Or(c.Reason, c.Type[strings.LastIndex(c.Type, "/")+1:]))
	c.Status = cmp.Or(c.Status, metav1.ConditionUnknown)
	c.Message = strings.ToValidUTF8(c.Message, "\uFFFD")
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage-len(cut)], "") + cut
	}
	if c.LastTransitionTime.IsZero() {
		c.LastTransitionTime = metav1.Now()
	}
	// Whole seconds, as the server keeps them: a condition that is read equals the one
	// that was written.
	c.LastTransitionTime = metav1.NewTime(c.LastTransitionTime.Truncate(time.Second))
	for i := range *conditions {
		was := &(*conditions)[i]
		if was.Type != c.Type {
			continue
		}
		if was.Status == c.Status && !was.LastTransitionTime.IsZero() {
			c.LastTransitionTime = was.LastTransitionTime
		}
		if *was == c {
			return false
		}
		*was = c
		return true
	}
	*conditions = append(*conditions, c)
	return true
}

// The API server's limits.
const (
	maxMessage = 32768
	maxReason  = 1024
	cut        = " …"
)

// reasonWord turns a text into a reason that the API accepts: a letter, and then letters,
// digits, underscores, commas and colons. The reason does not end in a comma or colon.
func reasonWord(s string) string {
	s = strings.Map(func(r rune) rune {
		if isLetter(r) || r == '_' || '0' <= r && r <= '9' || r == ',' || r == ':' {
			return r
		}
		return '_'
	}, s)
	if s == "" || !isLetter(rune(s[0])) {
		s = "Is" + s
	}
	return strings.TrimRight(s[:min(len(s), maxReason)], ",:")
}

func isLetter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }
