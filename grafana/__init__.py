"""Grafana on the same tables: the provisioned data source. Dashboards as code follow."""
