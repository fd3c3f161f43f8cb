// Package taskhooks owns the steps around each start and end of a task: its directories, its templates, its volumes,
// and what makes it a CSI plugin. The client's composition imports it; hooks know contracts, never engines.
package taskhooks
