// Package filing owns the keys under which the state files objects. Only package state imports it.
package filing
