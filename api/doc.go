// Package api owns the public HTTP types of Berth, the JSON that command line, client library and server exchange, and
// the client itself:
//
//	config, err := api.ConfigFromEnv(nil)
//	client, err := api.NewClient(config)
//	jobs, meta, err := client.Jobs().List(ctx, nil)
//
// A read with QueryOptions.WaitIndex set to the QueryMeta.Index of the read before waits until there is something new.
// Replies that are no success are a *StatusError; an agent that cannot be asked is an *UnreachableError.
//
// Member names, nullability and number types are those of Nomad's HTTP API, so that existing clients work unchanged:
// Go field names are JSON names, durations are integer nanoseconds, pointers stand where the wire may carry null.
// The job types also carry `hcl` tags; package jobspec reads job files with them alone, so that a new job field is
// added here and in the model, and nowhere else.
//
// Beside the standard library the package needs a library for WebSockets, and nothing else. Everybody may import it.
//
// The tag is `hcl:"name[,kind]"`. The kinds are: none for an attribute, `label` for a block's label, `block` for a
// nested block (a pointer, a slice, or a map keyed by the block's label), `map` for a map that may be written as an
// attribute or as a block, and `any` for a free-form body. A field without the tag cannot be written in a job file.
package api
