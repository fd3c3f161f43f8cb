package kit

import (
	"context"
	"time"
)

// completeTime bounds how long a shell waits for what an agent knows.
const completeTime = 2 * time.Second

// Search offers a shell the ids of one kind of object, in the words of the search endpoint. Without an agent there are
// none.
func (e *Env) Search(ctx context.Context, kind, prefix string) []string {
	if e.Connect() != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, completeTime)
	defer cancel()
	out, err := e.client.Cluster().Search(ctx, prefix, kind, nil)
	if err != nil {
		return nil
	}
	return out.Matches[kind]
}
