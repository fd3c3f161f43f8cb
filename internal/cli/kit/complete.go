package kit

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// completeTime bounds how long a shell waits for what an agent knows.
const completeTime = 2 * time.Second

// Complete offers a shell the ids of one kind of object, in the words of the search endpoint.
func (e *Env) Complete(kind string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := e.Client()
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		out, err := c.Cluster().Search(ctx, prefix, kind, nil)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return out.Matches[kind], cobra.ShellCompDirectiveNoFileComp
	}
}
