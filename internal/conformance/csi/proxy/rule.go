package proxy

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// Action is what a rule does to a call.
type Action string

// The actions.
const (
	ActDelay     Action = "delay"      // wait, then go on: (NodeStage * delay 2s)
	ActHold      Action = "hold"       // wait until the rule is taken away, then go on: (NodeStage * hold)
	ActHang      Action = "hang"       // never answer, never reach the plugin: (NodeStage * hang)
	ActHangAfter Action = "hang-after" // reach the plugin, never answer
	// answer a code without reaching the plugin: (NodeStage * before Internal)
	ActBefore Action = "before"
	// reach the plugin, then answer a code: (NodeStage * after-effect DeadlineExceeded)
	ActAfter      Action = "after-effect"
	ActOK         Action = "ok-without-effect" // answer OK without reaching the plugin
	ActCrash      Action = "crash-before"      // kill the plugin, the call is broken off
	ActCrashAfter Action = "crash-after"       // reach the plugin, then kill it
	ActDrop       Action = "drop-socket"       // close every connection of callers; the plugin lives
	ActLoseMounts Action = "lose-mounts"       // unmount all that the plugin has mounted, then go on
	// in answers about capabilities: take it out, or put it in: (* * flip-capability STAGE_UNSTAGE_VOLUME)
	ActFlip       Action = "flip-capability"
	ActMountTmpfs Action = "mount-tmpfs" // for plugins that do not mount: a tmpfs at the target on their behalf
)

var actions = []Action{ActDelay, ActHold, ActHang, ActHangAfter, ActBefore, ActAfter, ActOK, ActCrash, ActCrashAfter,
	ActDrop, ActLoseMounts, ActFlip, ActMountTmpfs}

// Rule is one printable fault: which calls, what happens, how often.
type Rule struct {
	RPC    string // CSI name, or its beginning up to "Volume" (NodeStage), or *
	Volume string // volume id (or the name in CreateVolume); * is every one, also none
	Action Action
	Delay  time.Duration // of ActDelay
	Code   codes.Code    // of ActBefore and ActAfter
	Cap    string        // of ActFlip
	Times  int           // how often it acts; 0: always
	Nth    int           // act from the n-th matching call on; 0 and 1: from the first
}

// String prints the rule in the form that ParseRule reads.
func (r Rule) String() string {
	parts := []string{r.RPC, "*", string(r.Action)}
	if r.Volume != "*" {
		parts[1] = strconv.Quote(r.Volume)
	}
	switch r.Action {
	case ActDelay:
		parts = append(parts, r.Delay.String())
	case ActBefore, ActAfter:
		parts = append(parts, r.Code.String())
	case ActFlip:
		parts = append(parts, r.Cap)
	}
	if r.Nth > 1 {
		parts = append(parts, "from "+strconv.Itoa(r.Nth))
	}
	switch {
	case r.Times == 1:
		parts = append(parts, "once")
	case r.Times > 1:
		parts = append(parts, "x"+strconv.Itoa(r.Times))
	}
	return "(" + strings.Join(parts, " ") + ")"
}

// ParseRule reads a rule like (NodeStage "vol1" after-effect DeadlineExceeded once).
func ParseRule(text string) (Rule, error) {
	bad := func(why string) (Rule, error) {
		return Rule{},
			fmt.Errorf(`rule %q: %s; the form is (RPC volume action [argument] [from N] [once | xN]), for instance (NodeStage "vol1" after-effect DeadlineExceeded once)`, text, why)
	}
	inner, opened := strings.CutPrefix(strings.TrimSpace(text), "(")
	inner, closed := strings.CutSuffix(inner, ")")
	if !opened || !closed {
		return bad("no parentheses around it")
	}
	words, err := split(inner)
	if err != nil {
		return bad(err.Error())
	}
	if len(words) < 3 {
		return bad("a word is missing")
	}
	r := Rule{RPC: words[0], Volume: words[1], Action: Action(words[2])}
	if !slices.Contains(actions, r.Action) {
		return bad(fmt.Sprintf("the action %q is unknown; there are %v", r.Action, actions))
	}
	rest, why := r.argument(words[3:])
	if why == "" {
		why = r.count(rest)
	}
	if why != "" {
		return bad(why)
	}
	return r, nil
}

// argument reads what the action needs and gives back the words after it.
func (r *Rule) argument(words []string) ([]string, string) {
	switch r.Action {
	case ActDelay, ActBefore, ActAfter, ActFlip:
		if len(words) == 0 {
			return nil, "the action " + string(r.Action) + " needs an argument"
		}
	default:
		return words, ""
	}
	switch r.Action {
	case ActDelay:
		d, err := time.ParseDuration(words[0])
		if err != nil || d < 0 {
			return nil, strconv.Quote(words[0]) + " is no duration"
		}
		r.Delay = d
	case ActFlip:
		r.Cap = words[0]
	default:
		c, ok := codeOf(words[0])
		if !ok || c == codes.OK {
			return nil, strconv.Quote(words[0]) + " is no gRPC code of a failure"
		}
		r.Code = c
	}
	return words[1:], ""
}

func (r *Rule) count(words []string) string {
	for len(words) > 0 {
		switch w := words[0]; {
		case w == "once":
			r.Times = 1
		case w == "from" && len(words) > 1:
			n, err := strconv.Atoi(words[1])
			if err != nil || n < 1 {
				return strconv.Quote(words[1]) + " is no number of a call"
			}
			r.Nth, words = n, words[1:]
		case strings.HasPrefix(w, "x"):
			n, err := strconv.Atoi(w[1:])
			if err != nil || n < 1 {
				return strconv.Quote(w) + " is no count"
			}
			r.Times = n
		default:
			return strconv.Quote(w) + " is unknown here"
		}
		words = words[1:]
	}
	return ""
}

func codeOf(name string) (codes.Code, bool) {
	for c := codes.OK; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return c, true
		}
	}
	return 0, false
}

// split cuts at spaces; a quoted word may hold any character.
func split(s string) ([]string, error) {
	var out []string
	for s = strings.TrimSpace(s); s != ""; s = strings.TrimSpace(s) {
		if s[0] != '"' {
			word, rest, _ := strings.Cut(s, " ")
			out, s = append(out, word), rest
			continue
		}
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			return nil, fmt.Errorf("a quote is not closed")
		}
		word, err := strconv.Unquote(q)
		if err != nil {
			return nil, fmt.Errorf("a quoted word cannot be read: %w", err)
		}
		out, s = append(out, word), s[len(q):]
	}
	return out, nil
}

// ParseRules reads one rule per line; empty lines and lines that begin with # are nothing.
func ParseRules(text string) ([]Rule, error) {
	var out []Rule
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r, err := ParseRule(line)
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// WriteRules replaces the rules file of a running proxy; it takes effect with the next call. Rules that stay keep
// their counts.
func WriteRules(path string, rules ...string) error {
	if _, err := ParseRules(strings.Join(rules, "\n")); err != nil {
		return err
	}
	tmp := path + ".new"
	if err := os.WriteFile(tmp, []byte(strings.Join(rules, "\n")+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// matches reports whether the rule speaks of a call.
func (r Rule) matches(rpc, volume string) bool {
	return (r.RPC == "*" || r.RPC == rpc || r.RPC+"Volume" == rpc) && (r.Volume == "*" || r.Volume == volume)
}
