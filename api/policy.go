package api

import "time"

// Constraint is a demand on a node: the left side, compared with the right side, must hold.
type Constraint struct {
	LTarget string `hcl:"attribute"`
	RTarget string `hcl:"value"`
	Operand string `hcl:"operator"`
}

// Affinity is a wish about a node; Weight says how strong it is, negative for "rather not".
type Affinity struct {
	LTarget string `hcl:"attribute"`
	RTarget string `hcl:"value"`
	Operand string `hcl:"operator"`
	Weight  *int8  `hcl:"weight"`
}

// Spread distributes allocations over the values of an attribute.
type Spread struct {
	Attribute    string          `hcl:"attribute"`
	Weight       *int8           `hcl:"weight"`
	SpreadTarget []*SpreadTarget `hcl:"target,block"`
}

// SpreadTarget is the share of one value in a spread.
type SpreadTarget struct {
	Value   string `hcl:"value,label?"`
	Percent uint8  `hcl:"percent"`
}

// UpdateStrategy says how a new version of a job replaces the old one.
type UpdateStrategy struct {
	Stagger          *time.Duration `hcl:"stagger"`
	MaxParallel      *int           `hcl:"max_parallel"`
	HealthCheck      *string        `hcl:"health_check"`
	MinHealthyTime   *time.Duration `hcl:"min_healthy_time"`
	HealthyDeadline  *time.Duration `hcl:"healthy_deadline"`
	ProgressDeadline *time.Duration `hcl:"progress_deadline"`
	Canary           *int           `hcl:"canary"`
	AutoRevert       *bool          `hcl:"auto_revert"`
	AutoPromote      *bool          `hcl:"auto_promote"`
}

// MigrateStrategy says how allocations leave a node that is drained.
type MigrateStrategy struct {
	MaxParallel     *int           `hcl:"max_parallel"`
	HealthCheck     *string        `hcl:"health_check"`
	MinHealthyTime  *time.Duration `hcl:"min_healthy_time"`
	HealthyDeadline *time.Duration `hcl:"healthy_deadline"`
}

// RestartPolicy says how often a task is started again on the node it is on.
type RestartPolicy struct {
	Attempts        *int           `hcl:"attempts"`
	Interval        *time.Duration `hcl:"interval"`
	Delay           *time.Duration `hcl:"delay"`
	Mode            *string        `hcl:"mode"`
	RenderTemplates *bool          `hcl:"render_templates"`
}

// ReschedulePolicy says when a failed allocation is placed anew, maybe elsewhere.
type ReschedulePolicy struct {
	Attempts      *int           `hcl:"attempts"`
	Interval      *time.Duration `hcl:"interval"`
	Delay         *time.Duration `hcl:"delay"`
	DelayFunction *string        `hcl:"delay_function"`
	MaxDelay      *time.Duration `hcl:"max_delay"`
	Unlimited     *bool          `hcl:"unlimited"`
}

// DisconnectStrategy says what becomes of allocations whose node went silent.
type DisconnectStrategy struct {
	LostAfter         *time.Duration `hcl:"lost_after"`
	StopOnClientAfter *time.Duration `hcl:"stop_on_client_after"`
	Replace           *bool          `hcl:"replace"`
	Reconcile         *string        `hcl:"reconcile"`
}
