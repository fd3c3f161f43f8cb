// Package events owns the command that follows what changes.
package events

import (
	"context"
	"encoding/json"
	"strings"

	"berth/api"
	"berth/internal/cli/kit"
)

// Noun is the noun with its verbs.
func Noun(e *kit.Env) *kit.Command {
	return kit.Noun("event", "Follow what changes", newStream(e))
}

// topics are those that were named, as TOPIC or TOPIC:KEY.
type topics map[string][]string

// String implements flag.Value.
func (t topics) String() string { return "" }

// Set implements flag.Value.
func (t topics) Set(text string) error {
	topic, key, _ := strings.Cut(text, ":")
	if key == "" {
		key = api.TopicAll
	}
	t[topic] = append(t[topic], key)
	return nil
}

func newStream(e *kit.Env) *kit.Command {
	named := topics{}
	from := uint64(0)
	asJSON := false
	cmd := &kit.Command{
		Use:   "stream [flags]",
		Short: "Follow what changes",
		Long: `Prints what changed, as far as the servers remember it, and then what changes, until Ctrl-C: of each
change its index, what kind of object changed, what made the change, and the object. With -json each line has what
changed at one index, with the objects.`,
		Example: `  berth event stream
  berth event stream -topic Job -topic Allocation:web
  berth event stream -namespace '*' -index 420 -json`,
		Run: func(ctx context.Context, _ []string) error {
			s, err := e.Client().Events(ctx, api.EventOptions{Topics: named, Index: from}, nil)
			if err == nil {
				defer s.Close()
				err = show(e, s, asJSON)
			}
			if ctx.Err() != nil {
				return nil // Ctrl-C is how following ends
			}
			return kit.Doing(err, "follow", "events", "")
		},
	}
	fs := cmd.Flags()
	fs.Var(named, "topic", "only events of this `topic`, or TOPIC:KEY; repeat it for several")
	fs.Uint64Var(&from, "index", 0, "begin with this `index`; 0: with all that is remembered")
	fs.BoolVar(&asJSON, "json", false, "lines of JSON, with the objects")
	return cmd
}

func show(e *kit.Env, s *api.EventStream, asJSON bool) error {
	for {
		batch, err := s.Next()
		if err != nil {
			return err
		}
		if asJSON {
			line, err := json.Marshal(batch)
			if err != nil {
				return err
			}
			e.Out.Printf("%s\n", line)
			continue
		}
		for _, ev := range batch.Events {
			object := ev.Key
			if ev.Namespace != "" && e.AllNamespaces() {
				object = ev.Namespace + "/" + ev.Key
			}
			e.Out.Printf("%d  %-10s  %s  %s\n", ev.Index, ev.Topic, ev.Type, object)
		}
	}
}
