"""The addresses of the site."""

from django.urls import path

from library import views

urlpatterns = [path("", views.page), path("ask", views.ask), path("feedback", views.feedback)]
