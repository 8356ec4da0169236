module nisd-clients

go 1.24

require github.com/oapi-codegen/runtime v1.8.0
