package crd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// setColumn applies one directive to the column of a field.
func (a *application) setColumn(d directive) error {
	if a.at.repeated {
		return errors.New("a field in a list or map cannot have a column, because it can have many values")
	}
	if a.column == nil {
		a.column = &Column{JSONPath: a.at.path}
	}
	switch d.key {
	case "column":
		if a.column.Name = d.value; d.value == "" {
			a.column.Name = a.member.Name
		}
	case "columnPath":
		if !strings.HasPrefix(d.value, ".") && !strings.HasPrefix(d.value, "[") {
			return errors.New("want a path below the field, as in .name or [0]")
		}
		a.column.JSONPath += d.value
	case "columnType":
		if !slices.Contains(columnTypes, d.value) {
			return fmt.Errorf("want one of %s", strings.Join(columnTypes, ", "))
		}
		a.column.Type = d.value
	case "columnFormat":
		a.column.Format = d.value
	case "priority":
		n, err := strconv.ParseInt(d.value, 10, 32)
		if err != nil {
			return errors.New("it is not an integer")
		}
		a.column.Priority = int32(n)
	}
	return nil
}

// finishColumn adds the column of a field to the columns of the version.
func (a *application) finishColumn() error {
	c := a.column
	if c.Name == "" {
		return errors.New("column is missing")
	}
	found := a.schema
	if rest := strings.TrimPrefix(c.JSONPath, a.at.path); rest != "" {
		var err error
		if found, err = find(a.schema, rest); err != nil {
			return err
		}
	}
	if c.Type == "" {
		var err error
		if c.Type, err = columnTypeOf(found); err != nil {
			return err
		}
	}
	a.b.columns = append(a.b.columns, *c)
	return nil
}

// columnTypeOf returns the type of a column that shows a value of the schema.
func columnTypeOf(s *Schema) (string, error) {
	switch {
	case s.IntOrString:
		return "string", nil
	case s.Type == "string" && (s.Format == "date-time" || s.Format == "date"):
		return "date", nil
	case s.Type == "string", s.Type == "integer", s.Type == "number", s.Type == "boolean":
		return s.Type, nil
	}
	return "", fmt.Errorf("%s does not fit into a column: add columnPath, or columnType=string", s.typeText())
}

var columnTypes = []string{"integer", "number", "string", "boolean", "date"}

// shows reports whether another column has the same name and shows the same value.
func (c Column) shows(other Column) bool { return c.Name == other.Name && c.JSONPath == other.JSONPath }

// checkColumns checks the columns from tags and options, and adds the column Age.
func checkColumns(v *Version) error {
	errs := v.columnFaults(v.Schema.OpenAPIV3Schema)
	hasAge := slices.ContainsFunc(v.Columns, func(c Column) bool { return c.Name == "Age" })
	if len(v.Columns) > 0 && !hasAge {
		v.Columns = append(v.Columns, Column{Name: "Age", Type: "date", JSONPath: ".metadata.creationTimestamp"})
	}
	return errors.Join(errs...)
}

// columnFaults returns what is wrong with the columns and the number of selectable fields.
func (v *Version) columnFaults(root *Schema) (errs []error) {
	for i, c := range v.Columns {
		fail := func(err error) { errs = append(errs, fmt.Errorf("column %s: %w", c.Name, err)) }
		if c.Name == "" {
			errs = append(errs, fmt.Errorf("the column for %s has no name", c.JSONPath))
		} else if slices.ContainsFunc(v.Columns[:i], c.shows) {
			fail(errors.New("there are two of this name for the same field"))
		}
		if !slices.Contains(columnTypes, c.Type) {
			fail(fmt.Errorf("type %q is not one of %s", c.Type, strings.Join(columnTypes, ", ")))
		}
		if _, err := find(root, c.JSONPath); err != nil {
			fail(err)
		}
	}
	if len(v.SelectableFields) > maxSelectable {
		errs = append(errs, fmt.Errorf("%d fields are selectable: a server allows %d",
			len(v.SelectableFields), maxSelectable))
	}
	return errs
}

// maxSelectable is the largest number of selectable fields of a version.
const maxSelectable = 8
